package actors

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit"
)

// invocations records what a mailbox hands to its actor.
type invocations struct {
	seen []string
	on   func(message any) // nil = nothing
}

func (i *invocations) InvokeSystemMessage(message any) { i.invoke("system", message) }
func (i *invocations) InvokeUserMessage(message any)   { i.invoke("user", message) }

func (i *invocations) EscalateFailure(reason, message any) {
	i.seen = append(i.seen, fmt.Sprint("failure ", reason, " at ", message))
}

func (i *invocations) invoke(kind string, message any) {
	i.seen = append(i.seen, fmt.Sprint(kind, " ", message))
	if i.on != nil {
		i.on(message)
	}
}

// heldDispatcher runs what was scheduled when the test says so.
type heldDispatcher struct{ scheduled []func() }

func (d *heldDispatcher) Schedule(f func()) { d.scheduled = append(d.scheduled, f) }
func (d *heldDispatcher) Throughput() int   { return 1 }

func (d *heldDispatcher) release() {
	for len(d.scheduled) > 0 {
		f := d.scheduled[0]
		d.scheduled = d.scheduled[1:]
		f()
	}
}

func newHeldMailbox() (*runMailbox, *invocations, *heldDispatcher) {
	m, i, d := newRunMailbox(), &invocations{}, &heldDispatcher{}
	m.RegisterHandlers(i, d)
	m.Start()
	return m, i, d
}

func TestRunMailboxKeepsOrderAndSaysWhereRunsEnd(t *testing.T) {
	m, i, d := newHeldMailbox()
	var ends []any
	i.on = func(message any) {
		if !m.more() {
			ends = append(ends, message)
		}
	}
	const n = 2*maxRun + 3
	var want []string
	for k := range n {
		m.PostUserMessage(k)
		want = append(want, fmt.Sprint("user ", k))
	}
	require.Len(t, d.scheduled, 1)
	require.Equal(t, n, m.UserMessageCount())
	d.release()
	require.Equal(t, want, i.seen)
	require.Equal(t, []any{maxRun - 1, 2*maxRun - 1, n - 1}, ends)
	m.PostUserMessage("alone")
	d.release()
	require.Equal(t, "alone", ends[3])
}

func TestRunMailboxHandlesSystemMessagesFirst(t *testing.T) {
	m, i, d := newHeldMailbox()
	i.on = func(message any) {
		if message == 1 {
			m.PostSystemMessage("late")
		}
	}
	m.PostUserMessage(1)
	m.PostUserMessage(2)
	m.PostSystemMessage("a")
	m.PostSystemMessage("b")
	d.release()
	require.Equal(t, []string{"system a", "system b", "user 1", "system late", "user 2"}, i.seen)
}

func TestRunMailboxGoesOnAfterAFailure(t *testing.T) {
	m, i, d := newHeldMailbox()
	i.on = func(message any) {
		if message == 1 {
			m.PostSystemMessage(&actor.SuspendMailbox{}) // as the actor system does in its place
			panic("ouch")
		}
	}
	m.PostUserMessage(1)
	m.PostUserMessage(2)
	d.release()
	require.Equal(t, []string{"user 1", "failure ouch at 1"}, i.seen)
	m.PostUserMessage(3)
	m.PostSystemMessage("asked while suspended")
	d.release()
	require.Equal(t, "system asked while suspended", i.seen[2])
	require.Len(t, i.seen, 3)
	m.PostSystemMessage(&actor.ResumeMailbox{})
	d.release()
	require.Equal(t, []string{"user 2", "user 3"}, i.seen[3:])
}

// counter counts what it gets from each sender, which must come in order.
type counter struct {
	t    *testing.T
	last map[int]int
	left int
	done chan struct{}
}

type numbered struct{ sender, number int }

func (c *counter) Receive(ctx actor.Context) {
	m, ok := ctx.Message().(numbered)
	if !ok {
		return
	}
	if c.last[m.sender]++; c.last[m.sender] != m.number {
		c.t.Errorf("sender %d: number %d came as number %d", m.sender, m.number, c.last[m.sender])
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

func TestRunMailboxTakesMessagesFromManySenders(t *testing.T) {
	const senders, each = 8, 2000
	c := &counter{t: t, last: map[int]int{}, left: senders * each, done: make(chan struct{})}
	root := testkit.System().Root
	pid := root.Spawn(actor.PropsFromProducer(func() actor.Actor { return c },
		actor.WithMailbox(func() actor.Mailbox { return newRunMailbox() })))
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for n := range each {
				root.Send(pid, numbered{sender, n + 1})
			}
		})
	}
	wg.Wait()
	<-c.done
	require.NoError(t, root.StopFuture(pid).Wait())
}
