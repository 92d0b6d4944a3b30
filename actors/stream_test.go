package actors

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func newTestStream(bufferBytes int) *stream {
	return newStream("id", testkit.System().Root, bufferBytes)
}

func TestFinalIsLastAndOnce(t *testing.T) {
	s := newTestStream(1 << 20)
	require.True(t, s.push(infer.Delta{Text: "a"}))
	s.finish(&infer.Final{Usage: infer.Usage{NumPromptTokens: 1}})
	s.finish(&infer.Final{Usage: infer.Usage{NumPromptTokens: 2}})
	require.True(t, s.push(infer.Delta{Text: "late"}))
	<-s.Ready()
	events := s.Drain(nil)
	require.Len(t, events, 2)
	require.Equal(t, "a", events[0].Delta.Text)
	require.Equal(t, 1, events[1].Final.Usage.NumPromptTokens)
	require.Empty(t, s.Drain(nil))
}

func TestDeltasMergeOnceTheReaderLags(t *testing.T) {
	s := newTestStream(4 * eventBytes) // soft bound: one event
	stop := infer.StopReason{Text: "x"}
	shared := []int32{1, 2, 3}
	require.True(t, s.push(infer.Delta{Index: 0, Text: "a", TokenIDs: shared[:1], NumOutputTokens: 1}))
	require.True(t, s.push(infer.Delta{Index: 1, Text: "b", TokenIDs: shared[1:2], NumOutputTokens: 1}))
	require.True(t, s.push(infer.Delta{Index: 0, Text: "c", TokenIDs: []int32{9}, NumOutputTokens: 2, FinishReason: infer.FinishStop, StopReason: stop}))
	events := s.Drain(nil)
	require.Len(t, events, 2)
	require.Equal(t, infer.Delta{Index: 0, Text: "ac", TokenIDs: []int32{1, 9}, NumOutputTokens: 2,
		FinishReason: infer.FinishStop, StopReason: stop}, events[0].Delta)
	require.Equal(t, "b", events[1].Delta.Text)
	require.Equal(t, []int32{1, 2, 3}, shared, "memory shared with other deltas was not written to")
}

func TestLaggingReaderIsFoundOut(t *testing.T) {
	const bound = 8 << 10
	s := newTestStream(bound)
	pushed := 0
	for s.push(infer.Delta{Text: strings.Repeat("x", 100), TokenIDs: []int32{1}}) {
		pushed++
		require.Less(t, pushed, 1000)
	}
	require.Greater(t, pushed, bound/(100+4+eventBytes))
	require.False(t, s.push(infer.Delta{Text: "y"}), "a request that is too slow does not recover")
	events := s.Drain(nil)
	text := ""
	for _, e := range events {
		text += e.Delta.Text
	}
	require.Equal(t, pushed*100, len(text), "what was accepted is still there")
	require.False(t, s.push(infer.Delta{Text: "z"}))
}

// One delta may be larger than the bound; a reader that keeps up is not slow.
func TestLargeDeltaAlone(t *testing.T) {
	s := newTestStream(1 << 10)
	for range 3 {
		require.True(t, s.push(infer.Delta{Text: strings.Repeat("x", 1<<12)}))
		require.Len(t, s.Drain(nil), 1)
	}
}

func TestCancelBeforeTheActorRuns(t *testing.T) {
	s := newTestStream(1 << 20)
	s.Cancel(infer.CancelClientGone)
	s.Cancel(infer.CancelShutdown)
	r := testkit.NewRecorder(t, testkit.System())
	require.Equal(t, infer.CancelClientGone, s.bind(r.PID))
	s.Cancel(infer.CancelDeadline)
	require.Empty(t, r.Take())
}

func TestCancelIsSentOnce(t *testing.T) {
	s := newTestStream(1 << 20)
	r := testkit.NewRecorder(t, testkit.System())
	require.Empty(t, s.bind(r.PID))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { s.Cancel(infer.CancelDeadline) })
	}
	wg.Wait()
	require.Equal(t, []any{&Cancel{Reason: infer.CancelDeadline}}, r.Take())
	s.finish(&infer.Final{})
	s.Cancel(infer.CancelShutdown)
	require.Empty(t, r.Take())
}

// However writers and reader interleave, each choice's text, tokens and logprobs
// arrive complete and in order.
func TestMergingLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTestStream(rapid.IntRange(1<<10, 1<<16).Draw(t, "buffer"))
		s.limits.hard = 1 << 30
		var want, got [3]infer.Delta
		read := func() {
			for _, e := range s.Drain(nil) {
				accumulate(&got[e.Delta.Index], e.Delta)
			}
		}
		for i := range rapid.IntRange(0, 400).Draw(t, "deltas") {
			d := infer.Delta{
				Index:    rapid.IntRange(0, 2).Draw(t, "index"),
				Text:     strings.Repeat("é", rapid.IntRange(0, 300).Draw(t, "text")),
				TokenIDs: []int32{int32(i)},
				Logprobs: []infer.TokenLogprobs{{Token: infer.TokenLogprob{TokenID: int32(i)}}},
			}
			d.NumOutputTokens = want[d.Index].NumOutputTokens + 1
			accumulate(&want[d.Index], d)
			require.True(t, s.push(d))
			if rapid.IntRange(0, 50).Draw(t, "read") == 0 {
				read()
			}
		}
		read()
		require.Equal(t, want, got)
		require.Zero(t, s.bytes)
	})
}

func accumulate(total *infer.Delta, d infer.Delta) {
	total.Index = d.Index
	total.Text += d.Text
	total.TokenIDs = append(total.TokenIDs, d.TokenIDs...)
	total.Logprobs = append(total.Logprobs, d.Logprobs...)
	total.NumOutputTokens = d.NumOutputTokens
}

// The buffers of a stream that has ended serve others, with nothing left in them.
func TestStreamLeavesItsBuffersToOthers(t *testing.T) {
	s := newStream("id", nil, 1<<20)
	deltas := make([]infer.Delta, minKeptEvents)
	for i := range deltas {
		deltas[i] = infer.Delta{Text: "secret", TokenIDs: []int32{1}}
	}
	require.True(t, s.push(deltas...))
	first := s.Drain(nil)
	require.True(t, s.push(deltas...))
	second := s.Drain(first[:0])
	s.finish(&infer.Final{})
	last := s.Drain(second[:0])
	require.NotNil(t, last[0].Final)
	require.Empty(t, s.Drain(last[:0]))
	require.Nil(t, s.pending)
	for buf := takeEvents(); buf != nil; buf = takeEvents() {
		require.Empty(t, buf)
		require.Equal(t, make([]infer.Event, cap(buf)), buf[:cap(buf)])
	}
}

// What a step gives at once is no lag, even if it is more than the buffer.
func TestBurstOfAStepIsNoLag(t *testing.T) {
	const choices, bufferBytes = 30, 64 << 10
	text := strings.Repeat("x", bufferBytes)
	s := newTestStream(bufferBytes)
	for range 3 { // a reader that reads after each step
		for i := range choices {
			require.True(t, s.push(infer.Delta{Index: i, Prompt: &infer.PromptInfo{Text: text}}))
		}
		require.Len(t, s.Drain(nil), choices)
	}
	steps := 0
	for inTime := true; inTime; steps++ { // and one that does not
		for i := range choices {
			inTime = inTime && s.push(infer.Delta{Index: i, Text: text})
		}
	}
	require.Equal(t, 3, steps, "one step, as much again, and the one that is too much")
	require.LessOrEqual(t, len(s.Drain(nil)), 2*choices+1)
}
