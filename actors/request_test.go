package actors

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// requestBench is a request whose supervisor and batcher are recorders. Its
// sequences are real.
type requestBench struct {
	*workbench
	batcher *testkit.Recorder
	job     *job
	pid     *actor.PID
	added   []*AddSequence
}

func newRequest(t *testing.T, n int) *requestBench {
	b := &requestBench{workbench: newWorkbench(t), batcher: testkit.NewRecorder(t, testkit.System())}
	b.job = b.newJob(n, nil)
	b.spawn()
	b.added = testkit.TakeOf[*AddSequence](b.batcher)
	require.Len(t, b.added, n)
	return b
}

func (b *requestBench) spawn() {
	for i := range b.job.sequences {
		b.job.sequences[i].batcher = &BatcherReady{PID: b.batcher.PID, Epoch: 1, metrics: b.env.metrics(0)}
	}
	request := &RequestActor{env: b.env, job: b.job, metrics: b.env.metrics(0)}
	request.childOptions = []actor.PropsOption{actor.WithDispatcher(actor.NewSynchronizedDispatcher(1 << 30))}
	b.pid = b.recorder.SpawnChild(func() actor.Actor { return request }, actor.WithSupervisor(b.env.strategy))
}

// answer sends the only output of a choice.
func (b *requestBench) answer(choice int, m SequenceOutput) {
	m.Epoch = 1
	b.send(b.added[choice].ReplyTo, &m)
}

// final returns the stream's Final and the deltas before it.
func (b *requestBench) final() (*infer.Final, []infer.Delta) {
	b.t.Helper()
	var deltas []infer.Delta
	for _, e := range b.job.stream.Drain(nil) {
		if e.Final != nil {
			require.Empty(b.t, b.env.registry.streams(), "the request has left")
			require.Zero(b.t, b.env.admission.live.Load(), "its places are free")
			return e.Final, deltas
		}
		deltas = append(deltas, e.Delta)
	}
	return nil, deltas
}

// requireGone asserts that the request and its sequences have stopped.
func (b *requestBench) requireGone() {
	b.t.Helper()
	one(b.t, testkit.TakeOf[*actor.Terminated](b.recorder))
}

func TestOneChoiceHasMetrics(t *testing.T) {
	b := newRequest(t, 1)
	stamps := infer.Stamps{Queued: 1e9, Scheduled: 1.5e9, FirstToken: 2e9, LastToken: 3e9}
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("abc"), NumOutputTokens: 3, FinishReason: infer.FinishLength,
		Details: &OutputDetails{Stamps: stamps, NumCachedTokens: 2}})
	final, deltas := b.final()
	require.Len(t, deltas, 1)
	require.Equal(t, infer.Usage{NumPromptTokens: 2, NumCompletionTokens: 3, NumCachedTokens: 2}, final.Usage)
	require.Nil(t, final.Err)
	require.Equal(t, infer.NullFloat{Value: 500, Valid: true}, final.Metrics.TimeToFirstTokenMs)
	require.Equal(t, infer.NullFloat{Value: 2, Valid: true}, final.Metrics.TokensPerSecond)
	b.requireGone()
}

func TestTwoChoicesHaveNone(t *testing.T) {
	b := newRequest(t, 2)
	require.NotEqual(t, b.added[0].Params.Seed, b.added[1].Params.Seed)
	b.answer(1, SequenceOutput{NewTokenIDs: bytesOf("xy"), NumOutputTokens: 2, FinishReason: infer.FinishStop, Details: &OutputDetails{NumCachedTokens: 2}})
	final, deltas := b.final()
	require.Nil(t, final)
	require.Equal(t, 1, deltas[0].Index)
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("abc"), NumOutputTokens: 3, FinishReason: infer.FinishLength})
	final, _ = b.final()
	require.Nil(t, final.Metrics)
	require.Equal(t, infer.Usage{NumPromptTokens: 2, NumCompletionTokens: 5}, final.Usage, "cached is what no choice computed")
	b.requireGone()
}

func TestMetricsOnlyIfSwitchedOn(t *testing.T) {
	b := newRequest(t, 1)
	b.env.perRequestMetrics = false
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("a"), NumOutputTokens: 1, FinishReason: infer.FinishLength})
	final, _ := b.final()
	require.Nil(t, final.Metrics)
}

func TestFailedChoiceFailsTheRequest(t *testing.T) {
	b := newRequest(t, 3)
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("a"), NumOutputTokens: 1})
	err := infer.Errorf(infer.CodeInternal, "", "Internal server error")
	b.answer(1, SequenceOutput{FinishReason: infer.FinishError, Details: &OutputDetails{Err: err}})
	final, deltas := b.final()
	require.Equal(t, err, final.Err)
	require.Nil(t, final.Metrics)
	require.Equal(t, 1, final.Usage.NumCompletionTokens)
	require.Len(t, deltas, 1)
	require.Len(t, testkit.TakeOf[*AbortSequence](b.batcher), 2, "the others are given up")
	for _, choice := range []int{0, 2} {
		b.answer(choice, SequenceOutput{FinishReason: infer.FinishAbort})
	}
	b.requireGone()
}

// A sequence that panics takes its request with it, and nobody else.
func TestPanickingSequence(t *testing.T) {
	b := newRequest(t, 2)
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("b"), NumOutputTokens: 2}) // skips a token
	final, deltas := b.final()
	require.Empty(t, deltas)
	require.Equal(t, infer.CodeInternal, final.Err.Code)
	require.Len(t, testkit.TakeOf[*AbortSequence](b.batcher), 2)
	b.answer(1, SequenceOutput{FinishReason: infer.FinishAbort})
	b.requireGone()
}

func TestPanickingRequest(t *testing.T) {
	b := newRequest(t, 2)
	b.send(b.pid, &SequenceFinished{Index: 99})
	final, _ := b.final()
	require.Equal(t, infer.CodeInternal, final.Err.Code)
	b.requireGone()
	require.Len(t, testkit.TakeOf[*AbortSequence](b.batcher), 2, "the batcher forgets its sequences")
	require.Empty(t, b.job.stream.Drain(nil))
}

func TestCancelledRequest(t *testing.T) {
	for reason, want := range map[infer.CancelReason]struct {
		code    infer.Code // "" = no error
		message string
	}{
		infer.CancelClientGone: {},
		infer.CancelShutdown:   {infer.CodeUnavailable, "shutting down"},
		infer.CancelDeadline:   {infer.CodeUnavailable, "deadline"},
		infer.CancelSlowClient: {infer.CodeUnavailable, "not read fast enough"},
		infer.CancelAdmin:      {infer.CodeUnavailable, "operator"},
		infer.CancelTooLarge:   {infer.CodeInvalid, "larger than the server keeps"},
		infer.CancelInternal:   {infer.CodeInternal, "Internal server error"},
	} {
		t.Run(string(reason), func(t *testing.T) {
			b := newRequest(t, 2)
			b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("a"), NumOutputTokens: 1})
			b.job.stream.Cancel(reason)
			final, deltas := b.final()
			require.Len(t, deltas, 1)
			if want.code == "" {
				require.Nil(t, final.Err)
			} else {
				require.Contains(t, final.Err.Message, want.message)
				require.Equal(t, want.code, final.Err.Code)
			}
			require.Equal(t, 1, final.Usage.NumCompletionTokens)
			for choice := range 2 {
				b.answer(choice, SequenceOutput{FinishReason: infer.FinishAbort})
			}
			b.requireGone()
		})
	}
}

// A cancel may overtake the report of a choice that is complete: its client has the
// finish reason, and gets no error behind it.
func TestCancelThatCameTooLate(t *testing.T) {
	for _, tc := range []struct {
		finish    infer.FinishReason
		cancelled infer.CancelReason
		wantErr   bool
	}{
		{infer.FinishLength, infer.CancelShutdown, false},
		{infer.FinishAbort, infer.CancelShutdown, true},
		{infer.FinishLength, infer.CancelSlowClient, true}, // deltas were dropped
	} {
		w := newWorkbench(t)
		j := w.newJob(1, nil)
		r := &RequestActor{env: w.env, job: j, cancelled: tc.cancelled, choices: []SequenceFinished{{FinishReason: tc.finish, NumTokens: 3}}}
		r.conclude()
		final := one(t, j.stream.Drain(nil)).Final
		require.Equal(t, tc.wantErr, final.Err != nil)
		require.Equal(t, tc.wantErr, final.Metrics == nil)
		require.Equal(t, 3, final.Usage.NumCompletionTokens)
	}
}

func TestCancelledBeforeItStarts(t *testing.T) {
	b := &requestBench{workbench: newWorkbench(t), batcher: testkit.NewRecorder(t, testkit.System())}
	b.job = b.newJob(2, nil)
	b.job.stream.Cancel(infer.CancelClientGone)
	b.spawn()
	final, _ := b.final()
	require.Nil(t, final.Err)
	require.Empty(t, b.batcher.Take(), "no sequence was started")
	b.requireGone()
}

func TestSlowClientIsCancelled(t *testing.T) {
	b := newRequest(t, 1)
	b.job.stream.limits.hard = 1
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("a"), NumOutputTokens: 1})
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf(strings.Repeat("b", 50)), NumOutputTokens: 51})
	final, deltas := b.final()
	require.Len(t, deltas, 1)
	require.Contains(t, final.Err.Message, "not read fast enough")
	require.EqualValues(t, 1, b.counted("troupe:slow_clients_total"))
	one(t, testkit.TakeOf[*AbortSequence](b.batcher))
}

func TestUnknownMessagesAreCounted(t *testing.T) {
	b := newRequest(t, 1)
	b.send(b.pid, "what?")
	b.send(b.added[0].ReplyTo, "what?")
	batcher, _, _ := b.newBatcher(testkit.DeviceOptions{})
	b.send(batcher, "what?")
	require.EqualValues(t, 3, b.counted("troupe:unknown_messages_total"))
	b.answer(0, SequenceOutput{NewTokenIDs: bytesOf("a"), NumOutputTokens: 1, FinishReason: infer.FinishLength})
	final, _ := b.final()
	require.Nil(t, final.Err)
}
