//go:build !race

// The race detector slows the simulator down, and finds nothing in kernels.

package cuda_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/computetest"
	"github.com/troupe-llm/troupe/compute/cuda"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// every is how thin the suite is run; a simulator takes its time.
var every = flag.Int("every", 29, "run every n-th case of the conformance suite")

// TestConformance runs the kernels' PTX under the simulator's checks, blocks and warps in
// random order.
func TestConformance(t *testing.T) {
	computetest.RunEvery(t, *every, func(t *testing.T) compute.Backend {
		b, err := cuda.New(cuda.Options{Device: open(t, ptxsim.Options{Seed: 1})})
		require.NoError(t, err)
		return b
	})
}
