package enginebench

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model/understudy"
)

func openUnderstudy(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(Load{Name: "understudy", Folder: understudy.Embedded(), Threads: 1, MaxNumSeqs: 2, MaxTokens: 64, MaxModelLen: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// Each step reads the keys and values of every position that its tokens see.
func TestDecodeCountsWhatItReads(t *testing.T) {
	e := openUnderstudy(t)
	position := e.model.KVReadBytes(1)
	require.Positive(t, position)
	d, err := e.Decode(2, 10, 3)
	require.NoError(t, err)
	require.Equal(t, 2*(11+12+13)*position, d.KVBytes)
	require.Positive(t, d.Took)
}

// A measurement of fewer sequences than were asked for would flatter.
func TestDecodeThatDoesNotFit(t *testing.T) {
	e := openUnderstudy(t)
	e.config.MaxModelLen = 2 * e.config.BlockSize
	e.config.NumBlocks = 3
	_, err := e.Decode(2, e.config.BlockSize-1, 4)
	require.ErrorContains(t, err, "the KV cache of 48 tokens does not hold 2 sequences")
}

func TestOpenWithoutRoomInTheContext(t *testing.T) {
	_, err := Open(Load{Name: "understudy", Folder: understudy.Embedded(), Threads: 1, MaxNumSeqs: 1, MaxTokens: 64, MaxModelLen: 9999})
	require.ErrorContains(t, err, "understudy: --prefill, --decode, --context and --tokens need a context of 9999 tokens: ")
}

func TestMeasureStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	note := func(turn string) {
		if turn == "turn 2 of 9" {
			cancel()
		}
	}
	r, err := Measure(ctx, []*Engine{openUnderstudy(t)}, Plan{
		Prefills: []int{2}, Batches: []int{1}, Context: 2, Tokens: 1, Repetitions: 9, Threads: 1, ReadBytes: 1 << 16, Note: note,
	})
	require.NoError(t, err)
	require.True(t, r.Interrupted)
	require.Len(t, r.Engines[0].Rows[1].TokensPerSecond.values, 1)
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "interrupted")
}

func TestSpread(t *testing.T) {
	s := &Spread{}
	for _, v := range []float64{4, 1, 3} {
		s.add(v)
	}
	require.Equal(t, []float64{1, 3, 4}, []float64{s.Min, s.Median, s.Max})
	s.add(2)
	require.Equal(t, 2.5, s.Median)
}
