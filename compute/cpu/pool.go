package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// How long a waiting goroutine spins before it parks: some 20 µs, about what a
// park and a wake-up cost together.
const (
	spinRounds = 256
	spinPauses = 2 // between two looks; each some 40 to 140 cycles
)

// Estimated times that decide how work is shared, in nanoseconds of one thread.
const (
	// soloNs is what is not worth telling a worker about.
	soloNs = 4000
	// chunkNs is the least that is worth claiming.
	chunkNs = 4000
)

// numChunks returns into how many chunks work of ns should be cut: enough that a
// slow thread holds nobody up for long.
func numChunks(ns, threads int) int { return min(max(ns/chunkNs, 2), 8*threads) }

// runSized runs t in n chunks, on the caller alone if all of it takes less than
// soloNs.
func (b *Backend) runSized(t task, n, ns int) {
	if ns < soloNs {
		for i := range n {
			t.run(i, 0)
		}
		return
	}
	b.pool.run(t, n)
}

// yieldChunks is after how many chunks a caller without workers lets other
// goroutines run: its processor may be the only one.
const yieldChunks = 8

// task is work cut into chunks. run computes chunk on the worker of that
// number (0 = the caller); chunks may run in any order and at the same time.
type task interface {
	run(chunk, worker int)
}

// pool runs tasks on the caller and a fixed set of workers.
//
// ticket holds the epoch of the task (high half) and how many of its chunks
// are unclaimed (low half); a chunk is claimed by counting down with a
// compare-and-swap. The caller does not leave run before every claimed chunk is
// done, so a worker that claimed one may read task.
type pool struct {
	task    task
	epoch   uint32
	ticket  atomic.Uint64
	pending atomic.Int64 // chunks not yet done

	workers []*worker
	running sync.WaitGroup
	closed  atomic.Bool

	waiting atomic.Bool // the caller parks on done
	done    chan struct{}

	failure atomic.Pointer[taskPanic]
}

// worker is one goroutine of the pool.
type worker struct {
	index  int
	asleep atomic.Bool
	wake   chan struct{}
}

// taskPanic is a panic in a chunk, carried to the caller.
type taskPanic struct {
	value any
	stack []byte
}

// Error implements error.
func (p *taskPanic) Error() string {
	return fmt.Sprintf("compute/cpu: panic in a worker: %v\n%s", p.value, p.stack)
}

// Unwrap returns the panic's value if it was an error.
func (p *taskPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func newPool(threads int) *pool {
	p := &pool{done: make(chan struct{}, 1)}
	for i := 1; i < threads; i++ {
		w := &worker{index: i, wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.running.Go(func() { p.loop(w) })
	}
	return p
}

// run computes chunks 0 … n-1 of t and returns when all are done. A panic in a
// chunk is raised here, as a *taskPanic if workers took part, after the others
// are done.
func (p *pool) run(t task, n int) {
	if n == 1 || len(p.workers) == 0 {
		for chunk := range n {
			t.run(chunk, 0)
			if chunk%yieldChunks == yieldChunks-1 {
				runtime.Gosched()
			}
		}
		return
	}
	if n <= 0 {
		return
	}
	p.task = t
	p.epoch++
	p.pending.Store(int64(n))
	p.ticket.Store(uint64(p.epoch)<<32 | uint64(n))
	p.wakeUp(n - 1)
	for {
		chunk, ok := p.claim()
		if !ok {
			break
		}
		p.runChunk(chunk, 0)
	}
	p.await()
	if f := p.failure.Swap(nil); f != nil {
		panic(f)
	}
}

// claim takes a chunk of the task at hand.
func (p *pool) claim() (chunk int, ok bool) {
	for {
		ticket := p.ticket.Load()
		left := uint32(ticket)
		if left == 0 {
			return 0, false
		}
		if p.ticket.CompareAndSwap(ticket, ticket-1) {
			return int(left - 1), true
		}
	}
}

func (p *pool) runChunk(chunk, index int) {
	defer p.finishChunk()
	p.task.run(chunk, index)
}

// finishChunk counts a chunk as done, whether it returned or panicked.
func (p *pool) finishChunk() {
	if v := recover(); v != nil {
		p.failure.CompareAndSwap(nil, &taskPanic{value: v, stack: debug.Stack()})
	}
	if p.pending.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
		p.done <- struct{}{}
	}
}

// wakeUp wakes up to n parked workers; the others spin and will see the ticket.
func (p *pool) wakeUp(n int) {
	woken := false
	for i := 0; i < len(p.workers) && i < n; i++ {
		if w := p.workers[i]; w.asleep.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
			woken = true
		}
	}
	if woken {
		// A goroutine that was just made ready waits behind this one. Stepping
		// back lets it start here, while another processor takes this one over:
		// faster than waiting for that processor to steal it.
		runtime.Gosched()
	}
}

// await returns when every chunk is done.
func (p *pool) await() {
	for range spinRounds {
		if p.pending.Load() == 0 {
			return
		}
		kernels.Pause(spinPauses)
	}
	p.waiting.Store(true)
	if p.pending.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.done
}

// loop is a worker's life: claim, spin a while, park.
func (p *pool) loop(w *worker) {
	for !p.closed.Load() {
		if chunk, ok := p.claim(); ok {
			p.runChunk(chunk, w.index)
			// A worker is never in a hurry: whoever else wants this processor,
			// an HTTP handler say, gets it between two chunks.
			runtime.Gosched()
			continue
		}
		if p.spin() {
			continue
		}
		w.asleep.Store(true)
		if uint32(p.ticket.Load()) != 0 || p.closed.Load() {
			if w.asleep.CompareAndSwap(true, false) {
				continue
			}
		}
		<-w.wake
	}
}

// spin waits a bounded time for a chunk to claim.
func (p *pool) spin() bool {
	for i := range spinRounds {
		if uint32(p.ticket.Load()) != 0 || p.closed.Load() {
			return true
		}
		kernels.Pause(spinPauses)
		if i%16 == 15 {
			runtime.Gosched()
		}
	}
	return false
}

// close stops the workers and waits for them.
func (p *pool) close() {
	p.closed.Store(true)
	p.wakeUp(len(p.workers))
	p.running.Wait()
}
