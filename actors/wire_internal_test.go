package actors

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-llm/troupe/cluster/clusterpb"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// across is a message after it has crossed.
func across[M proto.Message](t *testing.T, m, into M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, into))
	return into
}

// A sequence is the same on the other side, but for instants, which are as long ago
// there as here, and for what is the front's own.
func TestSequencesCross(t *testing.T) {
	const here, there = 1_000_000, 50_000_000_000
	front, worker := &environment{}, &environment{}
	front.goodSteps.Store(9)
	front.failures.Store(4)
	worker.goodSteps.Store(100)
	worker.failures.Store(1)
	m := &AddSequence{
		SeqID: 7, PromptTokenIDs: []int32{1, 2, 300}, OutputTokenIDs: []int32{4, 0},
		Params: &infer.SamplingParams{
			Temperature: 0.5, TopP: 0.9, TopK: 40, MinP: 0.1, PresencePenalty: -1, FrequencyPenalty: 1, RepetitionPenalty: 1.1, Seed: 1<<63 + 5,
			MaxTokens: 30, MinTokens: 2, StopTokenIDs: []int32{5}, EOSTokenIDs: []int32{0}, IgnoreEOS: true,
			LogitBias: []infer.TokenBias{{TokenID: 3, Bias: -100}}, BadWords: [][]int32{{1}, {2, 3}}, AllowedTokenIDs: []int32{0, 9},
			NumLogprobs: -1, NumPromptLogprobs: 3, ExtraArgs: map[string]string{"a": "1"},
		},
		Priority: -3, Arrival: here - 500, CacheSalt: "salt", Key: "team", KeyWeight: 2, NumPromptLogprobs: 1,
		Stamps:  infer.Stamps{Queued: here - 400, Scheduled: here - 300, FirstToken: here - 200, LastToken: here - 100},
		Crashes: Crashes{Num: 2, NumLone: 1, At: 5, Since: here - 50, goodAtFirst: 7, goodAtLone: 8, failuresAtFirst: 2},
	}
	w := across(t, front.wireAdd(m, here), &clusterpb.AddSequence{})
	got, err := worker.fromWire(w, 512, there)
	require.Nil(t, err)

	want := *m
	want.SeqID = 0
	want.Arrival = there - 500
	want.Stamps = infer.Stamps{Queued: there - 400, Scheduled: there - 300, FirstToken: there - 200, LastToken: there - 100}
	want.Crashes.Since = there - 50
	want.Crashes.goodAtFirst, want.Crashes.goodAtLone = 98, 99
	want.Crashes.failuresAtFirst = 0 // two have been seen since, and only one here
	require.Equal(t, &want, got)

	w.Params.AllowedTokenIds, w.Params.HasAllowed = nil, false
	got, err = worker.fromWire(w, 512, there)
	require.Nil(t, err)
	require.Nil(t, got.Params.AllowedTokenIDs, "all are allowed, and not none")
	_, err = worker.fromWire(w, 300, there)
	require.ErrorContains(t, err, "token 300, the vocabulary has 300")
	_, err = worker.fromWire(&clusterpb.AddSequence{}, 512, there)
	require.Error(t, err)
}

func TestOutputsCross(t *testing.T) {
	const there, here = 50_000_000_000, 1_000_000_000
	worker, front := &environment{}, &environment{vocabSize: 512, numSpecTokens: 4}
	stamps := infer.Stamps{Queued: there - 900, Scheduled: there - 800, FirstToken: there - 200, LastToken: there - 100}
	m := &SequenceOutput{
		Epoch: 3, NewTokenIDs: []int32{5, 6}, NumOutputTokens: 2, LastToken: stamps.LastToken, FinishReason: infer.FinishStop, Stalled: 11,
		Details: &OutputDetails{
			Stamps: stamps, NumCachedTokens: 4, NumPreemptions: 1,
			Logprobs:       []infer.TokenLogprobs{{Token: infer.TokenLogprob{TokenID: 5, Logprob: -1, Rank: 2}, Top: []infer.TokenLogprob{{TokenID: 9, Rank: 1}}}, {Token: infer.TokenLogprob{TokenID: 6}}},
			NumDraftTokens: 3, NumAcceptedTokens: 1, StopReason: infer.StopReason{TokenID: 0, ByToken: true},
			Lapse: &metrics.Lapse{Prefill: 1, StalledByPrefill: 2, Masking: 3, Preempted: 4, Recovering: 5, NumRecomputedTokens: 6, NumPreemptions: 7},
		},
	}
	w, terminal := worker.wireOutput(m, there)
	require.True(t, terminal)
	queued := int64(here - 5000) // as the front has it: the way there took a while
	admission := &admission{clock: func() int64 { return here }}
	s := &remoteSequence{stamps: infer.Stamps{Queued: queued}, logprobs: true, place: admission.enter(3)}
	var got SequenceOutput
	require.NoError(t, front.output(&got, across(t, w, &clusterpb.SequenceOutput{}), s, here))
	want := *m
	want.Epoch, want.LastToken = 0, here-100
	details := *m.Details
	details.Stamps = infer.Stamps{Queued: queued, Scheduled: here - 800, FirstToken: here - 200, LastToken: here - 100}
	want.Details = &details
	require.Equal(t, want, got)
	require.Zero(t, admission.queued.Load(), "it has left the queue")

	w, terminal = worker.wireOutput(&SequenceInterrupted{Stamps: stamps, Crashes: Crashes{Num: 1}, Err: infer.Internal(errors.New("why"))}, there)
	require.True(t, terminal)
	interrupted := front.interrupted(across(t, w, &clusterpb.SequenceOutput{}).GetInterruption(), s, 8, here)
	require.Equal(t, uint64(8), interrupted.Epoch)
	require.Equal(t, 1, interrupted.Crashes.Num)
	require.ErrorContains(t, interrupted.Err, "on another node: why")
}

// Stamps of a front never go back, whatever the network does to messages.
func TestStampsFollow(t *testing.T) {
	s := infer.Stamps{Queued: 1000}
	follow(&s, &clusterpb.Stamps{ScheduledAge: int64(time.Hour), FirstTokenAge: int64(time.Hour)}, 2000)
	require.Equal(t, infer.Stamps{Queued: 1000, Scheduled: 1000, FirstToken: 1000}, s)
	follow(&s, &clusterpb.Stamps{ScheduledAge: 1, FirstTokenAge: 1, LastTokenAge: 10}, 3000)
	require.Equal(t, infer.Stamps{Queued: 1000, Scheduled: 1000, FirstToken: 1000, LastToken: 2990}, s, "what was known stays")
	follow(&s, &clusterpb.Stamps{LastTokenAge: 500}, 3100)
	require.Equal(t, int64(2990), s.LastToken)
}

// A worker is believed in nothing that would break the front.
func TestOutputsThatDoNotFit(t *testing.T) {
	token := func() *clusterpb.SequenceOutput {
		return &clusterpb.SequenceOutput{NewTokenIds: []int32{1}, NumOutputTokens: 4}
	}
	for name, tc := range map[string]struct {
		change   func(*clusterpb.SequenceOutput)
		logprobs bool
	}{
		"a token outside the vocabulary": {change: func(w *clusterpb.SequenceOutput) { w.NewTokenIds[0] = 512 }},
		"a negative token":               {change: func(w *clusterpb.SequenceOutput) { w.NewTokenIds[0] = -1 }},
		"a token is missing":             {change: func(w *clusterpb.SequenceOutput) { w.NumOutputTokens = 5 }},
		"a token came twice":             {change: func(w *clusterpb.SequenceOutput) { w.NumOutputTokens = 3 }},
		"no such finish reason":          {change: func(w *clusterpb.SequenceOutput) { w.FinishReason = 77 }},
		"an error without a cause": {change: func(w *clusterpb.SequenceOutput) {
			w.FinishReason, w.Details = uint32(infer.FinishError), &clusterpb.OutputDetails{}
		}},
		"no logprobs":      {change: func(*clusterpb.SequenceOutput) {}, logprobs: true},
		"too few logprobs": {change: func(w *clusterpb.SequenceOutput) { w.Details = &clusterpb.OutputDetails{} }, logprobs: true},
		"a broken logprob": {change: func(w *clusterpb.SequenceOutput) {
			w.Details = &clusterpb.OutputDetails{PromptLogprobs: []*clusterpb.TokenLogprobs{{Token: &clusterpb.TokenLogprob{TokenId: 600}}}}
		}},
		"nothing where one": {change: func(w *clusterpb.SequenceOutput) { w.NewTokenIds = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			env := &environment{vocabSize: 512}
			var m SequenceOutput
			require.NoError(t, env.output(&m, token(), &remoteSequence{numTokens: 3}, 1))
			w := token()
			tc.change(w)
			require.Error(t, env.output(&m, w, &remoteSequence{numTokens: 3, logprobs: tc.logprobs}, 1))
		})
	}
}
