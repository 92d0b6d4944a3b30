package cpu

// readLines reads four streams of so many lines each, one behind the other from p on.
//
//go:noescape
func readLines(p *byte, lines int) uint64
