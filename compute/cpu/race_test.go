//go:build race

package cpu_test

// underRace says whether the race detector watches.
const underRace = true
