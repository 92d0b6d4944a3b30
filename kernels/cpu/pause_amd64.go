package cpu

// Pause idles for n PAUSE instructions, at least one: what a goroutine that
// spins on an atomic value should do between two looks.
//
//go:noescape
func Pause(n int)
