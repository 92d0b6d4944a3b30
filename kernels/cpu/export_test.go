package cpu

import "testing"

// WithoutVNNI takes the dot products away until the test ends.
func WithoutVNNI(t *testing.T) {
	had := hasVNNI
	hasVNNI = false
	t.Cleanup(func() { hasVNNI = had })
}
