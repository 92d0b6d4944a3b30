package actors

import (
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestPinnedActorStaysOnItsThread(t *testing.T) {
	root := testkit.System().Root
	thread := newPinnedDispatcher()
	threads := make(chan int, 400)
	pid := root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if _, ok := c.Message().(string); ok {
			threads <- unix.Gettid()
		}
	}, actor.WithDispatcher(thread)))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				root.Send(pid, "work")
			}
		})
	}
	wg.Wait()
	first := <-threads
	for range 399 {
		require.Equal(t, first, <-threads)
	}
	require.NotEqual(t, first, unix.Gettid())
	stopAndWait(root, pid)
	thread.Close()
}

// stopAndWait stops an actor and waits for its Terminated.
func stopAndWait(root *actor.RootContext, pid *actor.PID) {
	gone := make(chan struct{})
	root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch c.Message().(type) {
		case *actor.Started:
			c.Watch(pid)
			c.Stop(pid)
		case *actor.Terminated:
			close(gone)
			c.Stop(c.Self())
		}
	}))
	<-gone
}

// A sender that looked the actor up before it died may schedule after Close.
func TestScheduleAfterCloseStillRuns(t *testing.T) {
	d := newPinnedDispatcher()
	d.Close()
	d.Close()
	ran := make(chan struct{})
	d.Schedule(func() { close(ran) })
	<-ran
}

func TestCloseRunsWhatIsScheduled(t *testing.T) {
	d := newPinnedDispatcher()
	ran := false
	d.Schedule(func() { ran = true })
	d.Close()
	require.True(t, ran)
}
