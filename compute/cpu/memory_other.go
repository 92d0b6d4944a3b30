//go:build !linux

package cpu

// adviseHuge does nothing: only Linux takes the advice.
func adviseHuge([]byte, bool) {}

// maxBytes bounds one allocation where the machine's memory is not known.
func maxBytes() int64 { return 1 << 40 }
