package actors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/scheduler"
)

// TestBatcherTellsHowLongStepsTook: the scheduler hears of the time from a step's
// launch to its end, not of the pause before it.
func TestBatcherTellsHowLongStepsTook(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	c := testkit.SchedulerConfig()
	spec := b.device.runner.Spec()
	c.NumBlocks, c.BlockSize, c.ITLTarget = spec.NumBlocks, spec.BlockSize, 1000
	var err error
	b.device.scheduler, err = scheduler.New(c)
	require.NoError(t, err)
	step := func(ns int64) {
		w.clock.Advance(ns)
		require.True(t, d.Runner().Finish())
	}

	w.clock.Advance(1e9)
	w.send(pid, w.add(1, 20))
	step(100)
	step(50)
	require.Equal(t, 1, b.inFlight.NumTokens)
	w.send(pid, w.add(2, 100))
	step(50)
	require.Equal(t, 32, b.inFlight.NumTokens, "what was left of 1000 ns has room for more than a step")
	step(5000)
	require.Equal(t, 1+16, b.inFlight.NumTokens, "a step that took too long makes the next one smaller")
	w.send(pid, &AbortSequence{SeqID: 1})
	step(100)
	require.Equal(t, []infer.SeqID{2}, []infer.SeqID{b.inFlight.Sequences[0].SeqID})
	require.Equal(t, 32, b.inFlight.NumTokens, "nobody decodes: nobody waits")
	w.send(pid, &AbortSequence{SeqID: 2})
}
