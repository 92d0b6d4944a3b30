package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

func newAdmission(maxRunning, maxReqs, maxTokens int) (*admission, *testkit.Clock) {
	clock := &testkit.Clock{}
	return &admission{maxRunning: maxRunning, maxReqs: maxReqs, maxTokens: maxTokens, clock: clock.Now}, clock
}

// One slot, a queue of four, twenty at once: five come in, whenever the batcher
// gets to select the first.
func TestBurstFillsSlotAndQueue(t *testing.T) {
	for _, selectAfter := range []int{0, 1, 3, 20} {
		a, _ := newAdmission(1, 4, 0)
		admitted := 0
		for i := range 20 {
			places, err, reason := a.admit([]int{10})
			if err == nil {
				admitted++
			} else {
				require.Equal(t, metrics.RejectMaxQueuedReqs, reason)
				require.Equal(t, infer.CodeOverloaded, err.Code)
				require.GreaterOrEqual(t, err.RetryAfter, time.Second)
			}
			if i == selectAfter && err == nil {
				places[0].leaveQueue()
			}
		}
		require.Equal(t, 5, admitted, "first step after %d", selectAfter)
	}
}

// A free slot means nothing while the scheduler leaves sequences waiting for
// blocks.
func TestBlockedQueueCountsAllThatWait(t *testing.T) {
	a, _ := newAdmission(100, 2, 0)
	for range 3 {
		places, err, _ := a.admit([]int{1})
		require.Nil(t, err)
		places[0].leaveQueue()
	}
	a.blocked.Store(1)
	for range 2 {
		_, err, _ := a.admit([]int{1})
		require.Nil(t, err)
	}
	_, err, _ := a.admit([]int{1})
	require.NotNil(t, err)
	a.blocked.Store(0)
	_, err, _ = a.admit([]int{1})
	require.Nil(t, err)
}

func TestQueuedTokensLimit(t *testing.T) {
	a, _ := newAdmission(1, 0, 100)
	running, err, _ := a.admit([]int{500}) // runs at once: no limit on waiting applies
	require.Nil(t, err)
	running[0].leaveQueue()
	waiting, err, _ := a.admit([]int{60})
	require.Nil(t, err)
	_, err, reason := a.admit([]int{41})
	require.NotNil(t, err)
	require.Equal(t, metrics.RejectMaxQueuedTokens, reason)
	require.Contains(t, err.Message, "41")
	require.Contains(t, err.Message, "100")
	_, err, _ = a.admit([]int{40})
	require.Nil(t, err)
	waiting[0].release()
	_, err, _ = a.admit([]int{60})
	require.Nil(t, err)
}

func TestPlacesAreGivenBackOnce(t *testing.T) {
	a, _ := newAdmission(4, 4, 0)
	places, err, _ := a.admit([]int{3, 3})
	require.Nil(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, p := range places {
				p.leaveQueue()
				p.release()
			}
		})
	}
	wg.Wait()
	require.Zero(t, a.live.Load())
	require.Zero(t, a.queued.Load())
	require.Zero(t, a.queuedTokens.Load())
}

func TestPlacesAreGivenBackIfTheEngineDrains(t *testing.T) {
	w, e := newWorkbench(t), preparing(nil)
	e.env = w.env
	j, refusal := e.prepare(context.Background(), testkit.Completion("hello", 8))
	require.Nil(t, refusal)
	w.env.registry.drain() // after the request was looked at
	require.Equal(t, infer.CodeUnavailable, infer.AsError(e.admit(j)).Code)
	require.Zero(t, w.env.admission.live.Load())
	require.Zero(t, w.env.admission.queued.Load())
}

func TestRetryAfterOfARefusal(t *testing.T) {
	a, clock := newAdmission(1, 1, 0)
	for range 10 {
		places, err, _ := a.admit([]int{1})
		require.Nil(t, err)
		clock.Advance(int64(7 * time.Second))
		places[0].leaveQueue()
		places[0].release()
	}
	for range 2 {
		_, err, _ := a.admit([]int{1})
		require.Nil(t, err)
	}
	_, err, _ := a.admit([]int{1})
	require.NotNil(t, err)
	require.Equal(t, 14*time.Second, err.RetryAfter, "two are to leave before, one every 7 s")
}

func TestRetryAfterFollowsThePace(t *testing.T) {
	var p pace
	require.Equal(t, time.Second, p.until(5, 0), "nothing measured yet")
	now := int64(1)
	for range 50 {
		now += int64(2 * time.Second)
		p.departure(now)
	}
	require.Equal(t, 2*time.Second, p.until(1, now))
	require.Equal(t, 10*time.Second, p.until(5, now))
	require.Equal(t, maxRetryAfter, p.until(1<<40, now))
	require.Equal(t, 30*time.Second, p.until(1, now+int64(30*time.Second)), "the queue stands still")
}
