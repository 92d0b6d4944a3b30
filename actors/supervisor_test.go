package actors

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// supervisorBench is a supervisor with a scripted device. The recorder is its
// parent and plays the sequences that wait.
type supervisorBench struct {
	*workbench
	device *testkit.Device
	slots  []*slot
	pid    *actor.PID
	closed chan error
}

func newSupervisor(t *testing.T, openFault func(attempt int) error) *supervisorBench {
	b := &supervisorBench{workbench: newWorkbench(t), closed: make(chan error, 1)}
	b.device = testkit.NewDevice(testkit.DeviceOptions{OpenFault: openFault})
	config := &Config{NewRunner: b.device.NewRunner, Scheduler: testkit.SchedulerConfig(), Clock: b.clock.Now, RecoveryTimeout: time.Minute}
	config.DataParallelSize = 1
	slots, err := openSlots(config)
	require.NoError(t, err)
	b.slots = slots
	b.pid = b.recorder.SpawnChild(func() actor.Actor {
		return &SupervisorActor{env: b.env, config: config, slots: slots, closed: b.closed}
	}, actor.WithSupervisor(b.env.strategy))
	t.Cleanup(func() {
		opened := b.device.NumOpened()
		b.env.root.Stop(b.pid)
		require.NoError(t, <-b.closed)
		require.Equal(t, opened, b.device.NumOpened(), "nothing is opened while stopping")
		require.Nil(t, b.device.Runner(), "no runner is left open")
		require.NoError(t, b.device.Check())
	})
	return b
}

// await asks for a batcher other than the one of an epoch and waits for the answer.
func (b *supervisorBench) await(epoch uint64) *BatcherReady {
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: epoch})
	return testkit.Next[*BatcherReady](b.recorder)
}

func (b *supervisorBench) restarts() float64 { return b.counted("troupe:batcher_restarts_total") }

func (b *supervisorBench) health() health { return health(b.env.health.Load()) }

func TestDeadBatcherIsReplaced(t *testing.T) {
	b := newSupervisor(t, nil)
	first := b.await(0)
	require.EqualValues(t, 1, first.Epoch)
	require.Equal(t, healthServing, b.health())

	// A sequence may see the death before the supervisor does.
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: 1})
	require.Empty(t, testkit.TakeOf[*BatcherReady](b.recorder))
	b.env.root.Stop(first.PID)
	second := testkit.Next[*BatcherReady](b.recorder)
	require.EqualValues(t, 2, second.Epoch)
	require.False(t, second.PID.Equal(first.PID))
	require.Equal(t, healthServing, b.health())
	require.EqualValues(t, 1, b.restarts())
	expiry := <-b.timers
	require.Equal(t, time.Minute, expiry.after)
	require.True(t, expiry.stopped.Load())

	expiry.fire() // it was on its way when it was stopped
	require.Equal(t, healthServing, b.health())
	require.EqualValues(t, 2, b.await(0).Epoch)
	require.Equal(t, 2, b.device.NumOpened())
}

func TestOutageExpiresAndHeals(t *testing.T) {
	b := newSupervisor(t, func(attempt int) error {
		if attempt > 1 && attempt < 4 {
			return errors.New("device lost")
		}
		return nil
	})
	b.env.root.Stop(b.await(0).PID)
	expiry, retry := <-b.timers, <-b.timers
	require.Equal(t, firstRetry, retry.after)
	require.Equal(t, healthRecovering, b.health())
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: 1})
	require.Empty(t, testkit.TakeOf[*BatcherReady](b.recorder), "it waits")

	retry.fire()
	second := <-b.timers
	require.Equal(t, 2*firstRetry, second.after)
	expiry.fire()
	answer := testkit.Next[*BatcherReady](b.recorder)
	require.Equal(t, infer.CodeUnavailable, answer.Err.Code)
	require.Contains(t, answer.Err.Message, "1m0s")
	require.Equal(t, healthUnavailable, b.health())
	require.NotNil(t, b.await(1).Err, "later ones do not wait")

	retry.fire() // of an attempt that is over
	second.fire()
	for b.health() != healthServing {
		b.await(1)
	}
	require.EqualValues(t, 2, b.await(1).Epoch)
	require.EqualValues(t, 1, b.restarts())
}

// A device that can be opened, and whose batchers die before they have done anything,
// is reopened at once a few times and then less and less often.
func TestBarrenBatchersAreReplacedLessOften(t *testing.T) {
	b := newSupervisor(t, nil)
	epoch := uint64(0)
	for range maxBarren {
		epoch++
		b.env.root.Stop(b.await(epoch - 1).PID)
	}
	last := b.await(epoch)
	for _, wait := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry, 8 * firstRetry, lastReopen, lastReopen} {
		b.env.root.Stop(last.PID)
		timer := <-b.timers
		for timer.after == time.Minute || timer.after == maxGathering { // the limits of outages and of gathering
			timer = <-b.timers
		}
		require.Equal(t, wait, timer.after)
		require.Equal(t, healthRecovering, b.health())
		timer.fire()
		last = b.await(last.Epoch)
	}
}

// Whoever was cancelled meanwhile is neither counted nor answered.
func TestCancelledSequencesDoNotWait(t *testing.T) {
	b := newSupervisor(t, nil)
	b.await(0)
	gone, stays := &liveSequence{}, &liveSequence{}
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: 1, live: gone})
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: 1, live: stays})
	gone.finished.Store(true)
	b.env.root.Stop(b.slots[0].batcher.PID)
	require.EqualValues(t, 2, testkit.Next[*BatcherReady](b.recorder).Epoch)
	b.send(b.pid, &AwaitBatcher{ReplyTo: b.recorder.PID, Epoch: 1})
	require.EqualValues(t, 2, testkit.Next[*BatcherReady](b.recorder).Epoch)
	require.Empty(t, testkit.TakeOf[*BatcherReady](b.recorder))
	require.Equal(t, time.Minute, (<-b.timers).after, "the limit of the outage")
	require.Equal(t, maxGathering, (<-b.timers).after)
}

func TestStopWhileTheDeviceIsOpened(t *testing.T) {
	opening, proceed := make(chan struct{}), make(chan struct{})
	b := newSupervisor(t, func(attempt int) error {
		if attempt == 2 {
			close(opening)
			<-proceed
		}
		return nil
	})
	b.env.root.Stop(b.await(0).PID)
	<-opening
	b.env.root.Stop(b.pid)
	require.Equal(t, healthStopped, b.health())
	close(proceed) // the cleanup sees what was opened being closed
}

// A supervisor that panics takes the tree with it; no stream is left without an end.
func TestPanickingSupervisorFailsItsRequests(t *testing.T) {
	b := newSupervisor(t, nil)
	b.await(0)
	orphan := b.newJob(1, nil)
	b.send(b.pid, &AwaitBatcher{}) // nobody to reply to
	<-orphan.stream.Ready()
	events := orphan.stream.Drain(nil)
	require.Equal(t, infer.CodeInternal, one(t, events).Final.Err.Code)
}

func TestRequestsAreSupervised(t *testing.T) {
	b := newSupervisor(t, nil)
	j := b.newJob(1, nil)
	b.send(b.pid, &startRequest{job: j})
	for range j.stream.Ready() {
		for _, e := range j.stream.Drain(nil) {
			if e.Final != nil {
				require.Nil(t, e.Final.Err)
				return
			}
		}
	}
}

// The same through the façade, where the root context's guardian is the parent.
func TestEngineOutlivesItsSupervisor(t *testing.T) {
	var log strings.Builder
	d := testkit.NewDevice(testkit.DeviceOptions{Manual: true})
	e, err := NewEngine(Config{Tokenizer: testkit.Tokenizer(), NewRunner: d.NewRunner, Scheduler: testkit.SchedulerConfig(),
		Model: testkit.Model(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	s, err := e.Generate(context.Background(), testkit.Completion("hello", 4))
	require.NoError(t, err)
	require.Equal(t, "cmpl-test", s.ID())
	e.env.root.Send(e.supervisor, &AwaitBatcher{})
	<-s.Ready()
	require.Equal(t, infer.CodeInternal, one(t, s.Drain(nil)).Final.Err.Code)
	for r := d.Runner(); r != nil && !r.Finish(); r = d.Runner() { // a step in flight ends before the device is closed
	}
	require.NoError(t, e.Close())
	require.Error(t, e.Health())
	_, err = e.Generate(context.Background(), testkit.Completion("hello", 4))
	require.Equal(t, infer.CodeUnavailable, infer.AsError(err).Code)
	require.Contains(t, log.String(), "an actor panicked and was stopped")
	require.Contains(t, log.String(), "supervisor.go", "with the stack of the panic")
}
