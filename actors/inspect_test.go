package actors_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// await looks at the live requests until they are as wanted.
func await(e *actors.Engine, wanted func([]infer.RequestInfo) bool) []infer.RequestInfo {
	for {
		if infos := e.Requests(); wanted(infos) {
			return infos
		}
	}
}

func TestRequestsInAllPhases(t *testing.T) {
	h := newHeld(testkit.DeviceOptions{})
	e := startEngine(t, h.Device, func(c *actors.Config) { c.Scheduler.MaxNumSeqs = 1 })
	require.Empty(t, e.Requests())
	var streams []infer.Stream
	for i, id := range []string{"first", "second", "third", "third"} {
		req := endless(2 + i)
		req.ID, req.Key, req.Priority, req.N = id, "team", i, 1
		if i == 0 {
			req.N = 2
		}
		s, err := e.Generate(context.Background(), req)
		require.NoError(t, err)
		streams = append(streams, s)
		// The first one has the only seat before the others come.
		await(e, func(infos []infer.RequestInfo) bool { return infos[0].Phase == infer.PhasePrefill })
	}
	h.permits <- struct{}{} // the first choice gets its token
	infos := await(e, func(infos []infer.RequestInfo) bool { return infos[0].Phase == infer.PhaseDecode })
	arrival := infos[0].Arrival
	require.Equal(t, infer.RequestInfo{ID: "first", Key: "team", Phase: infer.PhaseDecode, Arrival: arrival,
		NumPromptTokens: 5, NumOutputTokens: 1, NumSequences: 2}, infos[0])
	require.Positive(t, arrival)
	for i, info := range infos[1:] {
		require.Equal(t, infer.PhaseQueued, info.Phase)
		require.Equal(t, i+1, info.QueuePosition)
		require.Equal(t, i+1, info.Priority)
	}
	require.True(t, e.CancelRequest("third"), "both of them")
	require.False(t, e.CancelRequest("third"))
	require.False(t, e.CancelRequest("fourth"))
	await(e, func(infos []infer.RequestInfo) bool { return len(infos) == 2 })
	close(h.permits)
	for i, s := range streams {
		a, err := read(s)
		require.NoError(t, err)
		if i < 2 {
			require.Nil(t, a.final.Err)
			require.Equal(t, infer.FinishLength, a.final.FinishReason)
			continue
		}
		requireError(t, a.final.Err, infer.CodeUnavailable, "operator")
		require.Equal(t, infer.FinishAbort, a.final.FinishReason)
	}
	await(e, func(infos []infer.RequestInfo) bool { return len(infos) == 0 })
}

func TestInjectedFaults(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{})
	requireError(t, startEngine(t, d, nil).InjectFault("panic", -1), infer.CodeNotFound, "--enable-fault-injection")
	bubble(t, func(t *testing.T) {
		quiet := startEngine(t, testkit.NewDevice(testkit.DeviceOptions{}), bubbleClock)
		d := testkit.NewDevice(testkit.DeviceOptions{Overlap: true})
		e := startEngine(t, d, func(c *actors.Config) {
			bubbleClock(c)
			c.FaultInjection, c.StepTimeout = true, time.Second
		})
		want := generate(t, quiet, endless(20))
		for i, kind := range []string{"panic", "error", "stall"} {
			require.NoError(t, e.InjectFault(kind, -i%2))
			got := generate(t, e, endless(20))
			requireSame(t, want, got, kind)
			require.Equal(t, 1, got.final.NumRecoveries)
			require.Equal(t, 2+i, d.NumOpened())
		}
		requireError(t, e.InjectFault("fire", 0), infer.CodeInvalid, "panic, error, stall")
		requireError(t, e.InjectFault("panic", 1), infer.CodeInvalid, "between -1 and 0")
		synctest.Wait()
	})
	e := startEngine(t, testkit.NewDevice(testkit.DeviceOptions{}), func(c *actors.Config) { c.FaultInjection = true })
	requireError(t, e.InjectFault("stall", 0), infer.CodeInvalid, "--step-timeout")
}

// A request whose batcher died waits for the device, and says so.
func TestWaitingForTheDevice(t *testing.T) {
	proceed := make(chan struct{})
	d := testkit.NewDevice(testkit.DeviceOptions{
		Fault: func(step int, _ *infer.StepPlan) error {
			if step == 3 {
				return testkit.Panic{Value: "scripted panic"}
			}
			return nil
		},
		OpenFault: func(attempt int) error {
			if attempt > 1 {
				<-proceed
			}
			return nil
		},
	})
	e := startEngine(t, d, nil)
	s, err := e.Generate(context.Background(), endless(10))
	require.NoError(t, err)
	await(e, func(infos []infer.RequestInfo) bool {
		// The news of the batcher's death overtakes its last outputs.
		return infos[0].Phase == infer.PhaseWaitingForDevice && infos[0].NumOutputTokens == 2
	})
	close(proceed)
	await(e, func(infos []infer.RequestInfo) bool { return len(infos) == 0 || infos[0].NumRecoveries == 1 })
	a, err := read(s)
	require.NoError(t, err)
	require.Equal(t, 1, a.final.NumRecoveries)
}
