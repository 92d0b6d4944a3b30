package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// sequenceBench is a sequence whose parent, supervisor and batchers are recorders.
type sequenceBench struct {
	*workbench
	batcher  *testkit.Recorder
	job      *job
	sequence *SequenceActor
	pid      *actor.PID
}

// newSequence spawns a sequence and returns what it submitted.
func newSequence(t *testing.T, change func(*infer.SamplingParams)) (*sequenceBench, *AddSequence) {
	b := &sequenceBench{workbench: newWorkbench(t), batcher: testkit.NewRecorder(t, testkit.System())}
	b.job = b.newJob(1, change)
	b.sequence = newSequenceActor(b.env, b.job, &b.job.sequences[0])
	b.sequence.supervisor = b.recorder.PID
	b.sequence.batcher = &BatcherReady{PID: b.batcher.PID, Epoch: 1}
	b.pid = b.recorder.SpawnChild(func() actor.Actor { return b.sequence })
	return b, one(t, testkit.TakeOf[*AddSequence](b.batcher))
}

// output sends tokens as the batcher of an epoch does.
func (b *sequenceBench) output(epoch uint64, total int, text string, finish infer.FinishReason) {
	b.clock.Advance(1)
	b.send(b.pid, &SequenceOutput{
		Epoch: epoch, NewTokenIDs: bytesOf(text), NumOutputTokens: total, FinishReason: finish,
		LastToken: b.clock.Now(), Details: &OutputDetails{Stamps: infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: b.clock.Now()}},
	})
}

// text returns what the reader got since the last call.
func (b *sequenceBench) text() (text string) {
	for _, e := range b.job.stream.Drain(nil) {
		text += e.Delta.Text
	}
	return text
}

func TestSequenceSubmitsAndFinishes(t *testing.T) {
	b, m := newSequence(t, nil)
	require.Equal(t, infer.SeqID(100), m.SeqID)
	require.Equal(t, []int32{'h', 'i'}, m.PromptTokenIDs)
	require.Empty(t, m.OutputTokenIDs)
	require.Equal(t, infer.Stamps{Queued: b.clock.Now()}, m.Stamps)
	require.Equal(t, b.pid, m.ReplyTo)

	b.output(1, 1, "a", infer.FinishNone)
	require.Equal(t, "a", b.text())
	b.output(1, 3, "bc", infer.FinishLength)
	require.Equal(t, "bc", b.text())
	messages := b.recorder.Take()
	require.Len(t, messages, 2)
	finished := messages[0].(*SequenceFinished)
	require.Equal(t, infer.FinishLength, finished.FinishReason)
	require.Equal(t, 3, finished.NumTokens)
	require.Equal(t, b.clock.Now(), finished.Stamps.LastToken)
	require.IsType(t, &actor.Terminated{}, messages[1])
	require.Empty(t, b.batcher.Take(), "nothing is aborted")
}

func TestSequenceMovesToTheNextBatcher(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 2, "ab", infer.FinishNone)

	b.send(b.pid, &SequenceInterrupted{Epoch: 1, Crashes: Crashes{Num: 1}, Stamps: infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: 4}})
	b.env.root.Stop(b.batcher.PID)
	await := one(t, testkit.TakeOf[*AwaitBatcher](b.recorder))
	require.Equal(t, &AwaitBatcher{ReplyTo: b.pid, Epoch: 1, place: b.job.sequences[0].place, live: b.job.sequences[0].live}, await)

	b.output(1, 3, "c", infer.FinishNone) // sent before the batcher died, overtaken by its Terminated
	next := testkit.NewRecorder(t, testkit.System())
	b.clock.Advance(50)
	b.send(b.pid, &BatcherReady{PID: next.PID, Epoch: 2})
	m := one(t, testkit.TakeOf[*AddSequence](next))
	require.Equal(t, bytesOf("abc"), m.OutputTokenIDs)
	require.Zero(t, m.Crashes.Num, "it got a token since")
	require.EqualValues(t, 1, m.Stamps.Queued, "never moved")

	b.output(1, 4, "x", infer.FinishNone) // of the old epoch
	b.send(b.pid, &SequenceInterrupted{Epoch: 1, Err: infer.Errorf(infer.CodeInternal, "", "old")})
	b.send(b.pid, &BatcherReady{PID: next.PID, Epoch: 3}) // not asked for
	require.Empty(t, next.Take(), "submitted once")
	b.output(2, 4, "d", infer.FinishLength)
	require.Equal(t, "abcd", b.text())
	require.Equal(t, bytesOf("abc"), m.OutputTokenIDs, "a message does not change after sending")
}

func TestSuspectResubmitsAsOne(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.send(b.pid, &SequenceInterrupted{Epoch: 1, Crashes: Crashes{Num: 1}, Stamps: infer.Stamps{Queued: 1, Scheduled: 2}})
	b.env.root.Stop(b.batcher.PID)
	next := testkit.NewRecorder(t, testkit.System())
	b.send(b.pid, &BatcherReady{PID: next.PID, Epoch: 2})
	m := one(t, testkit.TakeOf[*AddSequence](next))
	require.Equal(t, Crashes{Num: 1}, m.Crashes)
	require.Equal(t, infer.Stamps{Queued: 1, Scheduled: 2}, m.Stamps)
}

func TestBlamedSequenceFails(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 1, "a", infer.FinishNone)
	err := infer.Errorf(infer.CodeInternal, "", "boom")
	b.send(b.pid, &SequenceInterrupted{Epoch: 1, Err: err})
	finished := one(t, testkit.TakeOf[*SequenceFinished](b.recorder))
	require.Equal(t, infer.FinishError, finished.FinishReason)
	require.Equal(t, err, finished.Err)
	require.Equal(t, 1, finished.NumTokens)
}

func TestOutageTooLongFailsTheSequence(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.env.root.Stop(b.batcher.PID)
	b.recorder.Take()
	err := infer.Errorf(infer.CodeUnavailable, "", "no device")
	b.send(b.pid, &BatcherReady{Err: err})
	require.Equal(t, err, one(t, testkit.TakeOf[*SequenceFinished](b.recorder)).Err)
}

// What was held back goes out before an end that comes too early.
func TestEarlyEndHoldsNothingBack(t *testing.T) {
	for name, end := range map[string]func(b *sequenceBench){
		"cancel": func(b *sequenceBench) { b.send(b.pid, &Cancel{Reason: infer.CancelShutdown}) },
		"error": func(b *sequenceBench) {
			b.send(b.pid, &SequenceInterrupted{Epoch: 1, Err: infer.Errorf(infer.CodeInternal, "", "boom")})
		},
		"error of its own": func(b *sequenceBench) {
			b.send(b.pid, &SequenceOutput{Epoch: 1, NumOutputTokens: 4, FinishReason: infer.FinishError,
				Details: &OutputDetails{Err: infer.Errorf(infer.CodeInternal, "", "boom")}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newSequence(t, func(p *infer.SamplingParams) { p.Stop = []string{"END"} })
			b.output(1, 1, "a", infer.FinishNone)
			b.output(1, 4, "bE\xc3", infer.FinishNone) // may become a stop string; half a character
			b.text()
			end(b)
			delta := one(t, b.job.stream.Drain(nil)).Delta
			require.Equal(t, "E", delta.Text)
			require.Equal(t, 4, delta.NumOutputTokens)
			require.Equal(t, infer.FinishNone, delta.FinishReason)
			require.Equal(t, 4, one(t, testkit.TakeOf[*SequenceFinished](b.recorder)).NumTokens)
		})
	}
}

func TestEarlyEndWithNothingHeldBack(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 1, "a", infer.FinishNone)
	require.Equal(t, "a", b.text())
	b.send(b.pid, &Cancel{Reason: infer.CancelShutdown})
	require.Empty(t, b.job.stream.Drain(nil))
}

func TestStopStringEndsTheSequenceAtOnce(t *testing.T) {
	b, _ := newSequence(t, func(p *infer.SamplingParams) { p.Stop = []string{"END"} })
	b.output(1, 3, "abE", infer.FinishNone)
	require.Equal(t, "ab", b.text())
	b.output(1, 7, "ND..", infer.FinishNone)
	require.Equal(t, "", b.text())
	finished := one(t, testkit.TakeOf[*SequenceFinished](b.recorder))
	require.Equal(t, infer.FinishStop, finished.FinishReason)
	require.Equal(t, 5, finished.NumTokens, "tokens after the closing one never were")
	require.EqualValues(t, 5, b.counted("vllm:generation_tokens_total"))
	require.Equal(t, &AbortSequence{SeqID: 100}, one(t, testkit.TakeOf[*AbortSequence](b.batcher)))

	b.output(1, 8, "x", infer.FinishNone)
	require.Empty(t, b.recorder.Take(), "it lingers until the batcher has answered")
	require.EqualValues(t, 5, b.counted("vllm:generation_tokens_total"), "what a step in flight gave is nobody's")
	b.send(b.pid, &SequenceOutput{Epoch: 1, FinishReason: infer.FinishAbort})
	require.IsType(t, &actor.Terminated{}, one(t, b.recorder.Take()))
	require.Empty(t, b.text())
	require.Empty(t, b.batcher.Take())
}

func TestCancelFinishesOnceAndAborts(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 1, "a", infer.FinishNone)
	b.send(b.pid, &Cancel{Reason: infer.CancelClientGone})
	b.send(b.pid, &Cancel{Reason: infer.CancelShutdown})
	finished := one(t, testkit.TakeOf[*SequenceFinished](b.recorder))
	require.Equal(t, infer.FinishAbort, finished.FinishReason)
	require.Nil(t, finished.Err)
	one(t, testkit.TakeOf[*AbortSequence](b.batcher))
	b.env.root.Stop(b.batcher.PID) // its Terminated is an answer, too
	require.IsType(t, &actor.Terminated{}, one(t, b.recorder.Take()))
}

func TestFarewellAfterACancelIsNoAnswer(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.send(b.pid, &Cancel{Reason: infer.CancelClientGone})
	b.send(b.pid, &SequenceInterrupted{Epoch: 1, Err: infer.Errorf(infer.CodeInternal, "", "boom")})
	require.Nil(t, one(t, testkit.TakeOf[*SequenceFinished](b.recorder)).Err)
	b.env.root.Stop(b.batcher.PID)
	require.IsType(t, &actor.Terminated{}, one(t, b.recorder.Take()))
}

// What the bill says of the cache is what the first batcher found; preemptions add
// up over batchers.
func TestCountsOverTwoBatchers(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.send(b.pid, &SequenceOutput{Epoch: 1, NewTokenIDs: bytesOf("a"), NumOutputTokens: 1, Details: &OutputDetails{NumCachedTokens: 1, NumPreemptions: 1}})
	b.send(b.pid, &SequenceOutput{Epoch: 1, NewTokenIDs: bytesOf("b"), NumOutputTokens: 2, Details: &OutputDetails{NumCachedTokens: 1, NumPreemptions: 2}})
	b.env.root.Stop(b.batcher.PID)
	next := testkit.NewRecorder(t, testkit.System())
	b.send(b.pid, &BatcherReady{PID: next.PID, Epoch: 2, metrics: b.env.metrics(0)})
	b.send(b.pid, &SequenceOutput{Epoch: 2, NewTokenIDs: bytesOf("c"), NumOutputTokens: 3, FinishReason: infer.FinishLength,
		Details: &OutputDetails{NumCachedTokens: 2, NumPreemptions: 1}})
	require.Equal(t, 1, one(t, testkit.TakeOf[*SequenceFinished](b.recorder)).NumCachedTokens)
	require.EqualValues(t, 3, b.counted("vllm:request_num_preemptions"))
	require.EqualValues(t, 1, b.counted("vllm:prompt_tokens_cached_total"))
}

func TestScoredPromptIsCounted(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.send(b.pid, &SequenceOutput{Epoch: 1, FinishReason: infer.FinishLength})
	require.EqualValues(t, 2, b.counted("vllm:prompt_tokens_total"))
	require.Zero(t, b.counted("vllm:generation_tokens_total"))
}

// A batcher would remember every sequence there was, and greet each when it dies.
func TestSequenceIsForgottenByItsBatcher(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 1, "a", infer.FinishLength)
	greeted := false
	events := testkit.System().EventStream
	subscription := events.Subscribe(func(event any) {
		if dead, ok := event.(*actor.DeadLetterEvent); ok && dead.PID.Equal(b.pid) {
			greeted = true
		}
	})
	defer events.Unsubscribe(subscription)
	b.env.root.Stop(b.batcher.PID)
	require.False(t, greeted)
}

func TestCancelDuringAnOutage(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.env.root.Stop(b.batcher.PID)
	b.recorder.Take()
	b.send(b.pid, &Cancel{Reason: infer.CancelClientGone})
	messages := b.recorder.Take()
	require.Len(t, messages, 2)
	require.Equal(t, infer.FinishAbort, messages[0].(*SequenceFinished).FinishReason)
	require.IsType(t, &actor.Terminated{}, messages[1])
}

// A skipped token is a broken invariant: the sequence dies rather than send a
// wrong text, and the batcher forgets it.
func TestSkippedTokenKillsTheSequence(t *testing.T) {
	b, _ := newSequence(t, nil)
	b.output(1, 1, "a", infer.FinishNone)
	b.output(1, 3, "c", infer.FinishNone)
	require.Equal(t, "a", b.text())
	require.IsType(t, &actor.Terminated{}, one(t, b.recorder.Take()))
	one(t, testkit.TakeOf[*AbortSequence](b.batcher))
}

func TestLostBatcherIsSeenWithoutAFarewell(t *testing.T) {
	b := &sequenceBench{workbench: newWorkbench(t)}
	b.job = b.newJob(1, nil)
	dead := testkit.NewRecorder(t, testkit.System())
	b.env.root.Stop(dead.PID)
	b.sequence = newSequenceActor(b.env, b.job, &b.job.sequences[0])
	b.sequence.supervisor = b.recorder.PID
	b.sequence.batcher = &BatcherReady{PID: dead.PID, Epoch: 1}
	b.recorder.SpawnChild(func() actor.Actor { return b.sequence })
	require.EqualValues(t, 1, one(t, testkit.TakeOf[*AwaitBatcher](b.recorder)).Epoch)
}
