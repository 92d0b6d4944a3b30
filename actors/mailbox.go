package actors

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// runMailbox is a mailbox that hands over what was posted in runs, each under one
// lock, and tells its actor whether more of a run is to come: an actor that is
// behind can put off what it shares with others to the end of the run.
//
// User messages are handled in the order of posting, system messages before them,
// and nothing but system messages while the actor is suspended.
type runMailbox struct {
	dispatcher actor.Dispatcher
	invoker    actor.MessageInvoker
	process    func() // processMessages, bound once: scheduling then allocates nothing of ours

	mu        sync.Mutex
	ring      []any // len is a power of two
	first     int   // ring[first%len] was posted first
	numPosted int
	system    []any
	scheduled bool         // processMessages runs, or is about to
	numSystem atomic.Int32 // len(system), to look at between two messages

	// The actor's own:
	run       [maxRun]any // run[next:numRun] is to be handled
	next      int
	numRun    int
	suspended bool
}

// maxRun is how many messages a run has at most: enough to share a lock among,
// and few enough for what they lead to to stay in the processor's cache.
const maxRun = 16

var _ actor.Mailbox = (*runMailbox)(nil)

func newRunMailbox() *runMailbox {
	m := &runMailbox{ring: make([]any, 8)}
	m.process = m.processMessages
	return m
}

// more reports whether another user message of this run follows the one that is
// being handled. To be asked in Receive only.
func (m *runMailbox) more() bool { return m.next < m.numRun }

// PostUserMessage implements actor.Mailbox.
func (m *runMailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if m.numPosted == len(m.ring) {
		m.grow()
	}
	m.ring[(m.first+m.numPosted)&(len(m.ring)-1)] = message
	m.numPosted++
	m.unlockAndSchedule()
}

func (m *runMailbox) grow() {
	ring := make([]any, 2*len(m.ring))
	n := copy(ring, m.ring[m.first:])
	copy(ring[n:], m.ring[:m.first])
	m.ring, m.first = ring, 0
}

// PostSystemMessage implements actor.Mailbox.
func (m *runMailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	m.numSystem.Add(1)
	m.unlockAndSchedule()
}

func (m *runMailbox) unlockAndSchedule() {
	wake := !m.scheduled
	m.scheduled = true
	m.mu.Unlock()
	if wake {
		m.dispatcher.Schedule(m.process)
	}
}

// RegisterHandlers implements actor.Mailbox.
func (m *runMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start implements actor.Mailbox.
func (m *runMailbox) Start() {}

// UserMessageCount implements actor.Mailbox. It leaves out those of a run that has
// begun.
func (m *runMailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.numPosted
}

func (m *runMailbox) processMessages() {
	for sinceYield := 0; m.take(); sinceYield += maxRun {
		if sinceYield > m.dispatcher.Throughput() {
			sinceYield = 0
			runtime.Gosched()
		}
		m.handle()
	}
}

// take begins the next run, or goes on with one that a failure or a suspension
// broke off. It reports false if there is nothing to do: whoever posts next
// schedules again.
func (m *runMailbox) take() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.suspended && m.next == m.numRun {
		m.next, m.numRun = 0, min(m.numPosted, maxRun)
		for i := range m.numRun {
			slot := &m.ring[m.first]
			m.run[i], *slot = *slot, nil
			m.first = (m.first + 1) & (len(m.ring) - 1)
		}
		m.numPosted -= m.numRun
	}
	m.scheduled = len(m.system) > 0 || !m.suspended && m.next < m.numRun
	return m.scheduled
}

// handle handles a run. A panic of the actor ends it early.
func (m *runMailbox) handle() {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
		}
	}()
	for {
		switch {
		case m.numSystem.Load() > 0:
			message = m.popSystem()
			m.handleSystem(message)
		case !m.suspended && m.next < m.numRun:
			message = m.run[m.next]
			m.run[m.next] = nil
			m.next++
			m.invoker.InvokeUserMessage(message)
		default:
			return
		}
	}
}

func (m *runMailbox) popSystem() any {
	m.mu.Lock()
	defer m.mu.Unlock()
	message := m.system[0]
	m.system = append(m.system[:0], m.system[1:]...)
	m.numSystem.Add(-1)
	return message
}

func (m *runMailbox) handleSystem(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}
