package cpu

import "testing"

// WithoutVNNI takes the dot products away until the test ends, of AVX2 as well.
func WithoutVNNI(t *testing.T) {
	had, hadAVX := hasVNNI, hasAVXVNNI
	hasVNNI, hasAVXVNNI = false, false
	t.Cleanup(func() { hasVNNI, hasAVXVNNI = had, hadAVX })
}
