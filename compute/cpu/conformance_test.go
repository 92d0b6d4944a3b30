package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/computetest"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/internal/testkit"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

func newBackend(t testing.TB, o cpu.Options) *cpu.Backend {
	b, err := cpu.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func TestConformance(t *testing.T) {
	tiers, every := kernels.Tiers(), 1
	if testkit.UnderRace { // plain Go takes minutes there, and how work is shared out is the same in all cases
		tiers, every = tiers[len(tiers)-1:], 4
	}
	for i, tier := range tiers {
		threadCounts := []int{3}
		if i == len(tiers)-1 && !testkit.UnderRace {
			threadCounts = []int{1, 3} // how work is cut up is the same on all tiers
		}
		for _, threads := range threadCounts {
			t.Run(fmt.Sprintf("%v/%d", tier, threads), func(t *testing.T) {
				computetest.RunEvery(t, every, func(t *testing.T) compute.Backend {
					return newBackend(t, cpu.Options{Threads: threads, Tier: tier})
				})
			})
		}
	}
}
