package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// newBatcher spawns a batcher whose steps end when the test says so.
func (w *workbench) newBatcher(o testkit.DeviceOptions) (*actor.PID, *testkit.Device, *BatcherActor) {
	o.Manual = true
	d := testkit.NewDevice(o)
	dev, err := openDevice(&Config{NewRunner: d.NewRunner, Scheduler: testkit.SchedulerConfig(), Clock: w.clock.Now}, 0)
	require.NoError(w.t, err)
	dev.run = func(f func()) { f() }
	batcher := &BatcherActor{env: w.env, epoch: 7, device: dev, metrics: w.env.metrics(0), expected: w.expected}
	pid := w.recorder.SpawnChild(func() actor.Actor { return batcher })
	w.t.Cleanup(func() {
		w.env.root.Stop(pid)
		for d.Runner().Finish() {
		}
		require.NoError(w.t, dev.close())
		require.NoError(w.t, d.Check())
	})
	return pid, d, batcher
}

// add returns an AddSequence of a prompt of n tokens; the recorder gets the answers.
func (w *workbench) add(id infer.SeqID, n int) *AddSequence {
	params := testkit.Params(20)
	params.IgnoreEOS = true
	prompt := make([]int32, n)
	for i := range prompt {
		prompt[i] = int32(id)*16 + int32(i)
	}
	places, err, _ := w.env.admission.admit([]int{n})
	require.Nil(w.t, err)
	return &AddSequence{SeqID: id, PromptTokenIDs: prompt, Params: &params, ReplyTo: w.recorder.PID,
		Stamps: infer.Stamps{Queued: w.clock.Now()}, place: places[0]}
}

// A sequence that comes with stamps of another node has queued here, too, and has a
// place of its own in this queue.
func TestBatcherTakesAResumedSequenceOffTheQueue(t *testing.T) {
	w := newWorkbench(t)
	pid, _, _ := w.newBatcher(testkit.DeviceOptions{})
	m := w.add(1, 3)
	m.Stamps.Scheduled, m.Stamps.FirstToken, m.OutputTokenIDs = 1, 2, []int32{7}
	w.send(pid, m)
	require.Zero(t, w.env.admission.queued.Load())
	require.Zero(t, w.env.admission.queuedTokens.Load())
}

func TestBatcherStampsASequence(t *testing.T) {
	w := newWorkbench(t)
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{})
	m := w.add(1, 3)
	queued := m.Stamps.Queued
	w.clock.Advance(10)
	w.send(pid, m)
	scheduled := w.clock.Now()
	require.Zero(t, w.env.admission.queued.Load(), "it has left the queue")

	w.clock.Advance(10)
	first := w.clock.Now()
	require.True(t, d.Runner().Finish())
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.Stamps{Queued: queued, Scheduled: scheduled, FirstToken: first, LastToken: first}, out.Details.Stamps)
	require.Equal(t, uint64(7), out.Epoch)
	require.Equal(t, 1, out.NumOutputTokens)

	w.clock.Advance(10)
	require.True(t, d.Runner().Finish())
	out = one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, w.clock.Now(), out.LastToken)
	require.Nil(t, out.Details, "the rest is known")
	require.Equal(t, 2, out.NumOutputTokens)

	w.send(pid, &AbortSequence{SeqID: 1})
	w.clock.Advance(10)
	last := out.LastToken
	require.True(t, d.Runner().Finish())
	out = one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.FinishAbort, out.FinishReason)
	require.Equal(t, infer.Stamps{Queued: queued, Scheduled: scheduled, FirstToken: first, LastToken: last}, out.Details.Stamps)
}

func TestResumedSequenceKeepsItsStamps(t *testing.T) {
	w := newWorkbench(t)
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{})
	m := w.add(1, 3)
	m.OutputTokenIDs = testkit.Continue(m.PromptTokenIDs, m.Params)[:5]
	m.Stamps = infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: 4}
	w.clock.Advance(100)
	w.send(pid, m)
	require.True(t, d.Runner().Finish())
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: w.clock.Now()}, out.Details.Stamps)
	require.Equal(t, 6, out.NumOutputTokens)
	require.Equal(t, testkit.Continue(m.PromptTokenIDs, m.Params)[5:6], out.NewTokenIDs)
}

func TestOneOutputPerSequenceAndStep(t *testing.T) {
	w := newWorkbench(t)
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{})
	for id := range infer.SeqID(3) {
		w.send(pid, w.add(id+1, 4))
	}
	require.Equal(t, 1, d.NumSteps(), "the mailbox fills while a step is in flight")
	require.True(t, d.Runner().Finish())
	require.Len(t, testkit.TakeOf[*SequenceOutput](w.recorder), 1, "the first step had only the first sequence")
	w.clock.Advance(5)
	require.True(t, d.Runner().Finish())
	outputs := testkit.TakeOf[*SequenceOutput](w.recorder)
	require.Len(t, outputs, 3)
	for _, out := range outputs {
		require.Equal(t, w.clock.Now(), out.LastToken, "one clock reading per step")
		require.Len(t, out.NewTokenIDs, 1)
	}
}

func TestAbort(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	w.send(pid, w.add(1, 4))
	w.send(pid, w.add(2, 4))
	w.send(pid, &AbortSequence{SeqID: 2})
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.FinishAbort, out.FinishReason, "one that waits is answered at once")

	w.send(pid, &AbortSequence{SeqID: 1})
	w.send(pid, &AbortSequence{SeqID: 1})
	w.send(pid, &AbortSequence{SeqID: 99})
	require.Empty(t, w.recorder.Take(), "one aboard is answered at the commit")
	require.True(t, d.Runner().Finish())
	out = one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.FinishAbort, out.FinishReason)
	require.Empty(t, out.NewTokenIDs)
	require.Empty(t, b.sequences)
	require.NoError(t, b.device.scheduler.CheckInvariants())
	require.False(t, d.Runner().Finish(), "nothing is left to do")
}

// Two sequences outgrow the cache: the younger one loses its blocks and waits.
// Meanwhile a free seat means nothing to whoever asks to come in.
func TestPreemption(t *testing.T) {
	w := newWorkbench(t)
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{NumBlocks: 7})
	w.send(pid, w.add(1, 6))
	w.send(pid, w.add(2, 6))
	preemptions := map[uint64]int{}
	blocked := map[bool]bool{}
	for d.Runner().Finish() {
		blocked[w.env.admission.isBlocked()] = true
		for _, out := range testkit.TakeOf[*SequenceOutput](w.recorder) {
			require.NotEqual(t, infer.FinishError, out.FinishReason)
			if out.FinishReason != infer.FinishNone {
				preemptions[uint64(len(preemptions))] = int(out.Details.NumPreemptions)
			}
		}
	}
	require.Equal(t, map[uint64]int{0: 0, 1: 1}, preemptions, "in the order of their ends")
	require.Equal(t, map[bool]bool{false: true, true: true}, blocked)
	require.False(t, w.env.admission.isBlocked())
}

func TestDeadBatcherBlocksNobody(t *testing.T) {
	w := newWorkbench(t)
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{NumBlocks: 7})
	w.send(pid, w.add(1, 6))
	w.send(pid, w.add(2, 6))
	for !w.env.admission.isBlocked() {
		require.True(t, d.Runner().Finish())
	}
	w.env.root.Stop(pid)
	require.False(t, w.env.admission.isBlocked())
}

func TestWhatCanNeverRunIsAnswered(t *testing.T) {
	w := newWorkbench(t)
	pid, _, b := w.newBatcher(testkit.DeviceOptions{})
	w.send(pid, w.add(1, 200))
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, infer.FinishError, out.FinishReason)
	require.Equal(t, infer.CodeContextLength, out.Details.Err.Code)
	require.Empty(t, b.sequences)
}

func TestFailedStepStopsTheBatcher(t *testing.T) {
	for name, fault := range map[string]error{"error": errors.New("device lost"), "panic": testkit.Panic{Value: "boom"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorkbench(t)
			pid, d, _ := w.newBatcher(testkit.DeviceOptions{Fault: func(step int, _ *infer.StepPlan) error {
				if step == 2 {
					return fault
				}
				return nil
			}})
			w.send(pid, w.add(1, 4))
			w.send(pid, w.add(2, 4))
			require.True(t, d.Runner().Finish()) // a panic in Launch comes with the second step already
			w.send(pid, w.add(3, 4))
			d.Runner().Finish()
			answers := map[string]int{}
			suspects := 0
			for _, m := range w.recorder.Take() {
				answers[fmt.Sprintf("%T", m)]++
				if m, ok := m.(*SequenceInterrupted); ok {
					require.Nil(t, m.Err)
					require.NotZero(t, m.Stamps.Queued)
					suspects += m.Crashes.Num
				}
			}
			known := 3 // whoever it knows is answered
			if name == "panic" {
				known = 2 // the third found it dead
			}
			require.Equal(t, map[string]int{"*actors.SequenceOutput": 1, "*actors.SequenceInterrupted": known, "*actor.Terminated": 1}, answers)
			require.Equal(t, 2, suspects, "those aboard are suspects")
		})
	}
}

// One line says why a step failed; the stack of a panic is for those who ask.
func TestFailedStepIsLoggedInALine(t *testing.T) {
	var log strings.Builder
	w := newWorkbench(t)
	w.env.logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{Fault: func(int, *infer.StepPlan) error {
		return errors.New("panic: boom\ngoroutine 7 [running]:\nmodel.forward()")
	}})
	w.send(pid, w.add(1, 4))
	require.True(t, d.Runner().Finish())
	w.recorder.Take()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"error":"panic: boom"`)
	require.Contains(t, lines[1], `"level":"DEBUG"`)
	require.Contains(t, lines[1], "model.forward()")
}

// A sequence that kills the batcher while it is added, before the scheduler knows
// it, would do so again and again.
func TestSequenceThatCannotBeAddedFails(t *testing.T) {
	w := newWorkbench(t)
	pid, _, b := w.newBatcher(testkit.DeviceOptions{})
	b.device.scheduler = nil
	w.send(pid, w.add(1, 4))
	require.Equal(t, infer.CodeInternal, one(t, testkit.TakeOf[*SequenceInterrupted](w.recorder)).Err.Code)
}

// A panic between commit and fan-out loses nothing that was committed.
func TestCommittedOutputsSurviveAPanic(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	w.send(pid, w.add(1, 4))
	late := w.add(2, 4)
	late.place = nil // the next step selects it and panics
	w.send(pid, late)
	require.True(t, d.Runner().Finish())
	messages := w.recorder.Take()
	require.Equal(t, 1, messages[0].(*SequenceOutput).NumOutputTokens)
	require.Len(t, b.outgoing, 1)
	for _, m := range messages[1:3] {
		require.Equal(t, 1, m.(*SequenceInterrupted).Crashes.Num, "outside a step all are suspects")
	}
	require.IsType(t, &actor.Terminated{}, messages[3])
}

func TestSuspicionEndsWithAToken(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	suspect := w.add(1, 4)
	suspect.Crashes = Crashes{Num: 1}
	w.send(pid, suspect)
	w.send(pid, w.add(2, 4))
	require.Len(t, b.inFlight.Sequences, 1)
	require.True(t, d.Runner().Finish())
	require.Zero(t, b.sequences[1].crashes.Num)
	for range 2 {
		require.True(t, d.Runner().Finish())
	}
	require.Len(t, b.inFlight.Sequences, 2, "it shares steps again")
}

// What a suspect does alone shows nothing of the device that could not be its doing.
func TestStepsThatSpeakForTheDevice(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	suspect := w.add(1, 60) // two chunks
	suspect.Crashes = Crashes{Num: 2, NumLone: 1}
	w.send(pid, suspect)
	require.True(t, d.Runner().Finish())
	require.EqualValues(t, 1, b.env.goodSteps.Load())
	require.EqualValues(t, 1, b.sequences[1].crashes.goodAtLone, "that one was its own")
	require.True(t, b.device.worked.Load())
	w.send(pid, w.add(2, 4))
	require.True(t, d.Runner().Finish())
	require.Zero(t, b.sequences[1].crashes.Num, "it has a token")
	require.True(t, d.Runner().Finish())
	require.EqualValues(t, 3, b.env.goodSteps.Load())
}

// After a failure the first step waits for those that are on their way, but not for
// long.
func TestFirstStepWaitsForThoseExpected(t *testing.T) {
	for _, arrive := range []int{3, 2} {
		w := newWorkbench(t)
		w.expected = 3
		pid, d, b := w.newBatcher(testkit.DeviceOptions{})
		gathering := <-w.timers
		for id := range infer.SeqID(arrive) {
			require.Nil(t, b.inFlight)
			w.send(pid, w.add(id+1, 4))
		}
		if arrive < 3 {
			require.Nil(t, b.inFlight)
			gathering.fire()
		}
		require.Len(t, b.inFlight.Sequences, arrive)
		gathering.fire()
		require.Equal(t, 1, d.NumSteps())
	}
}

// Another key's sequence is next, although a burst came before it.
func TestKeysTakeTurns(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	for id, key := range []string{"burst", "burst", "burst", "other"} {
		m := w.add(infer.SeqID(id+1), 30)
		m.Key, m.KeyWeight = key, 1
		w.send(pid, m)
	}
	var started []infer.SeqID
	for len(started) < 4 {
		for _, seq := range b.inFlight.Sequences {
			if seq.StartPos == 0 {
				started = append(started, seq.SeqID)
			}
		}
		require.True(t, d.Runner().Finish())
	}
	require.Equal(t, []infer.SeqID{1, 4, 2, 3}, started)
}
