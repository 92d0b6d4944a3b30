//go:build !race

package testkit

// UnderRace says whether the race detector watches.
const UnderRace = false
