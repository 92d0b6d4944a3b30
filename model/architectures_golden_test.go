package model_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// tinyDir is where the tiny models are to be left for tools/architectures/golden.py.
var tinyDir = flag.String("tiny", "", "folder for the tiny models")

// architectureGoldens is testdata/architectures.json: logits after some tokens of
// a prompt, and its continuation, by an implementation that is not ours. Its
// provenance is in tools/architectures/golden.py.
type architectureGoldens struct {
	Prompt        []int32                        `json:"prompt"`
	Architectures map[string]*architectureGolden `json:"architectures"`
}

// architectureGolden is one architecture's.
type architectureGolden struct {
	Greedy []int32              `json:"greedy"`
	Logits map[string][]float64 `json:"logits"` // by how many tokens are before the last
}

func TestArchitecturesMatchGoldens(t *testing.T) {
	b, err := os.ReadFile("testdata/architectures.json")
	require.NoError(t, err)
	var g architectureGoldens
	require.NoError(t, json.Unmarshal(b, &g))
	require.Subset(t, architectures, slices.Collect(maps.Keys(g.Architectures)))
	forEachArchitecture(t, func(t *testing.T, tiny *modelkit.Tiny) {
		name := tiny.Config["architectures"].([]string)[0]
		dir := t.TempDir()
		if *tinyDir != "" {
			dir = filepath.Join(*tinyDir, name)
			require.NoError(t, os.MkdirAll(dir, 0o700))
		}
		tiny.WriteTo(t, dir, "F32")
		if want, ok := g.Architectures[name]; ok { // the reference alone vouches for the others
			for _, tier := range triedTiers() {
				s := scoredTiny(len(g.Prompt))
				require.Equal(t, g.Prompt, s.prompt)
				o := options(t)
				o.Backend = newBackendOf(t, cpu.Options{Threads: 2, Tier: tier})
				(&driver{runner: newRunner(t, load(t, dir, o))}).run(t, s)
				want.require(t, s)
			}
		}
	})
}

// require compares a scored and continued prompt.
func (g *architectureGolden) require(t *testing.T, s *sequence) {
	t.Helper()
	require.Equal(t, g.Greedy, s.output)
	require.Len(t, g.Logits, 2)
	reported := append(s.promptLogprobs, s.logprobs...)
	for after, logits := range g.Logits {
		position, err := strconv.Atoi(after)
		require.NoError(t, err)
		probs := logSoftmax(logits)
		for _, top := range reported[position].Top {
			require.InDelta(t, probs[top.TokenID], top.Logprob, referenceTolerance, "after token %d: token %d", position, top.TokenID)
		}
	}
}
