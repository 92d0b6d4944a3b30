package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// Options configure a Backend. The zero value is the normal choice.
type Options struct {
	// Threads is how many goroutines compute, the caller's included;
	// 0 = GOMAXPROCS.
	Threads int
	// Tier forces an instruction set; 0 = the best one that the processor has.
	Tier kernels.Tier
}

// maxThreads bounds Options.Threads: each worker owns scratch memory.
const maxThreads = 1024

// Backend implements [compute.Backend]. It is used from one goroutine at a time.
type Backend struct {
	tier    kernels.Tier
	pool    *pool
	mem     arena        // buffers, caches and scratch
	weights *sharedArena // matrices, those of all forks

	panels  scratch     // packed activations of one Linear
	worker  []workspace // per worker, the caller's first
	linear  linearTask
	pack    packTask
	attn    attentionTask
	norm    normTask
	gate    gateTask
	element elementTask
	mixture mixture
	rope    ropeTask
	closing bool
	kept    keeping
}

var (
	_ compute.Backend       = (*Backend)(nil)
	_ compute.WeightsKeeper = (*Backend)(nil)
)

// New starts the workers.
func New(o Options) (*Backend, error) {
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("compute/cpu: threads is %d; it must be between 0 and %d", o.Threads, maxThreads)
	}
	if o.Threads == 0 {
		o.Threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	if o.Tier == 0 {
		o.Tier = kernels.Best()
	}
	if !available(o.Tier) {
		return nil, fmt.Errorf("compute/cpu: this processor lacks %v", o.Tier)
	}
	return newBackend(o.Tier, o.Threads, &sharedArena{}), nil
}

func newBackend(tier kernels.Tier, threads int, weights *sharedArena) *Backend {
	weights.users.Add(1)
	b := &Backend{tier: tier, pool: newPool(threads), weights: weights, worker: make([]workspace, threads)}
	b.panels.mem, b.attn.memory.mem = &b.mem, &b.mem
	for i := range b.worker {
		b.worker[i].init(&b.mem)
	}
	return b
}

// Fork implements compute.Backend.
func (b *Backend) Fork() (compute.Backend, error) {
	if b.closing {
		return nil, errors.New("compute/cpu: the backend is closed")
	}
	return newBackend(b.tier, len(b.worker), b.weights), nil
}

func available(t kernels.Tier) bool {
	for _, have := range kernels.Tiers() {
		if have == t {
			return true
		}
	}
	return false
}

// Describe implements compute.Backend.
func (b *Backend) Describe() string {
	unit := "threads"
	if len(b.worker) == 1 {
		unit = "thread"
	}
	return fmt.Sprintf("cpu (%v, %d %s)", b.tier, len(b.worker), unit)
}

// AvailableMemory implements compute.Backend.
func (b *Backend) AvailableMemory() (bytes int64, own bool) { return 0, false }

// Sync implements compute.Backend. Operations are done when they return, so
// there is nothing to wait for; it lets other goroutines run, because between
// two steps is the best moment for it.
func (b *Backend) Sync() error {
	runtime.Gosched()
	return nil
}

// Close implements compute.Backend: it stops the workers and unmaps buffers and
// caches, and the matrices if no fork is left. None may be used afterwards.
func (b *Backend) Close() error {
	if b.closing {
		return nil
	}
	b.closing = true
	b.pool.close()
	return errors.Join(b.mem.freeAll(), b.weights.leave())
}
