package model_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// golden is understudy/testdata/golden.json, written by
// tools/understudy/scripts/golden.py from a float32 forward in PyTorch.
type golden struct {
	EOSTokenIDs []int32 `json:"eos_token_ids"`
	Cases       []struct {
		Prompt         string  `json:"prompt"`
		PromptIDs      []int32 `json:"prompt_ids"`
		GreedyIDs      []int32 `json:"greedy_ids"`
		DraftGreedyIDs []int32 `json:"draft_greedy_ids"`
		Top5           []struct {
			IDs    []int32   `json:"ids"`
			Logits []float64 `json:"logits"`
		} `json:"top5"`
	} `json:"cases"`
}

// goldenMaxTokens is where golden.py stops.
const goldenMaxTokens = 48

func readGolden(tb testing.TB) *golden {
	tb.Helper()
	b, err := os.ReadFile("understudy/testdata/golden.json")
	require.NoError(tb, err)
	var g golden
	require.NoError(tb, json.Unmarshal(b, &g))
	require.Len(tb, g.Cases, 41)
	return &g
}

// Every continuation is compared whole, those with nearly equal best logits too:
// neither float32 sums in another order nor keys and values in float16 change them
// here.
func TestGoldenContinuations(t *testing.T) {
	continueGoldens(t, options(t), func(t *testing.T, prompt string, want, got []int32) {
		require.Equal(t, want, got, "%q", prompt)
	})
}

// TestGoldenContinuationsInt8: integers for keys and values change few of them. 78 of
// 82 hold as this is written.
func TestGoldenContinuationsInt8(t *testing.T) {
	o, same, all := options(t), 0, 0
	o.KVCacheDType = "int8"
	continueGoldens(t, o, func(_ *testing.T, _ string, want, got []int32) {
		if all++; slices.Equal(want, got) {
			same++
		}
	})
	require.Equal(t, 82, all)
	require.GreaterOrEqual(t, same, 76)
}

// continueGoldens continues the goldens' prompts with the model and the draft model
// and shows check each continuation.
func continueGoldens(t *testing.T, o model.Options, check func(t *testing.T, prompt string, want, got []int32)) {
	g := readGolden(t)
	for name, f := range map[string]*model.Folder{
		understudy.Name:      understudy.Embedded(),
		understudy.DraftName: understudy.EmbeddedDraft(),
	} {
		t.Run(name, func(t *testing.T) {
			m := loadFolder(t, f, o)
			require.Equal(t, g.EOSTokenIDs, m.EOSTokenIDs())
			seqs := make([]*sequence, len(g.Cases))
			for i, c := range g.Cases {
				// All at once, in chunks of different lengths: only the first step is a whole prompt.
				seqs[i] = &sequence{prompt: c.PromptIDs, params: greedy(-1), max: goldenMaxTokens, stop: g.EOSTokenIDs, chunk: 1 + i%24}
			}
			(&driver{runner: newRunner(t, m)}).run(t, seqs...)
			for i, c := range g.Cases {
				want := c.GreedyIDs
				if name == understudy.DraftName {
					want = c.DraftGreedyIDs
				}
				check(t, c.Prompt, want, seqs[i].output)
			}
		})
	}
}

// goldenTolerance is absolute, on logits up to 33: golden.json is rounded to
// 1e-5 and PyTorch's float32 sums run in another order.
const goldenTolerance = 1e-4

func TestGoldenLogits(t *testing.T) {
	g := readGolden(t)
	o := exactOptions(t)
	var logits []float32
	o.Backend.(*tapped).onHost = func(values []float32) { logits = append([]float32{}, values...) }
	m := loadFolder(t, understudy.Embedded(), o)
	numCases, worst := 0, 0.0
	for _, c := range g.Cases {
		if len(c.Top5) == 0 {
			continue
		}
		numCases++
		d := &driver{runner: newRunner(t, m)}
		s := &sequence{prompt: c.PromptIDs, params: greedy(5), stop: g.EOSTokenIDs}
		for step, top := range c.Top5 {
			s.max = step + 1
			d.run(t, s)
			for i, id := range top.IDs {
				require.Equal(t, id, s.logprobs[step].Top[i].TokenID, "%q step %d", c.Prompt, step)
				require.InDelta(t, top.Logits[i], logits[id], goldenTolerance, "%q step %d token %d", c.Prompt, step, id)
				worst = max(worst, math.Abs(top.Logits[i]-float64(logits[id])))
			}
		}
	}
	require.Equal(t, 5, numCases)
	t.Logf("largest difference of a logit: %.2g", worst)
}
