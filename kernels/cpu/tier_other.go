//go:build !amd64

package cpu

var available = []Tier{Generic}

var hasVNNI, hasAVXVNNI = false, false
