package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestOverdueStepStopsTheBatcher(t *testing.T) {
	w := newWorkbench(t)
	w.env.stepTimeout = time.Second
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	w.send(pid, w.add(1, 4))
	first := <-w.timers
	require.Equal(t, time.Second, first.after)
	require.True(t, d.Runner().Finish())
	require.Len(t, testkit.TakeOf[*SequenceOutput](w.recorder), 1)
	require.EqualValues(t, 1, first.resets.Load(), "the next step has the same timer")
	require.False(t, first.stopped.Load())

	first.Stop() // it is on its way
	require.True(t, d.Runner().Finish())
	second := <-w.timers
	first.fire()
	require.Len(t, testkit.TakeOf[*SequenceOutput](w.recorder), 1, "of the step before: nobody minds")
	require.False(t, b.device.stalled.Load())

	second.fire()
	require.Equal(t, 1, one(t, testkit.TakeOf[*SequenceInterrupted](w.recorder)).Crashes.Num)
	require.True(t, b.device.stalled.Load())
	require.True(t, d.Runner().Finish(), "the step ends at last")
	require.Empty(t, w.recorder.Take(), "which changes nothing")
}

// A device is closed in time, or left to itself until its step ends.
func TestAbandonment(t *testing.T) { synctest.Test(t, testAbandonment) }

func testAbandonment(t *testing.T) {
	var done func(*infer.StepResult, error)
	a := newAbandonment(afterFunc, testLogger())
	open := func() (*device, *int) {
		d, closed := deviceOf(t, func(_ *infer.StepPlan, f func(*infer.StepResult, error)) { done = f })
		d.launch(&infer.StepPlan{}, func(*StepDone) {})
		return d, closed
	}
	d, closed := open()
	time.AfterFunc(time.Second, func() { done(nil, errors.New("slow")) })
	require.NoError(t, a.closeDevice(d, 2*time.Second))
	require.Equal(t, 1, *closed)

	d, closed = open()
	d.stalled.Store(true)
	require.ErrorIs(t, a.closeDevice(d, 0), ErrDeviceAbandoned)
	require.EqualValues(t, 1, a.count.Load())
	done(nil, errors.New("late"))
	synctest.Wait()
	require.Equal(t, 1, *closed)
	require.Zero(t, a.count.Load())

	var late []func(*infer.StepResult, error)
	for range maxAbandoned {
		require.NoError(t, a.full())
		d, _ = open()
		require.ErrorIs(t, a.closeDevice(d, time.Second), ErrDeviceAbandoned)
		late = append(late, done)
	}
	require.ErrorContains(t, a.full(), "4 abandoned devices")
	for _, done := range late {
		done(nil, errors.New("late"))
	}
	synctest.Wait()
	require.NoError(t, a.full())
}
