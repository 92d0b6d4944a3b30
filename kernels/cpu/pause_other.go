//go:build !amd64

package cpu

// Pause does nothing here: a goroutine that spins simply looks again.
func Pause(int) {}
