//go:build race

package testkit

// UnderRace says whether the race detector watches. Tests of what one goroutine
// computes may try less then: it slows them tenfold and has nothing to find there.
// `make test` runs them a second time without it.
const UnderRace = true
