package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/gpu"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// Options configure a Backend.
type Options struct {
	// Device runs the kernels; required. It is closed with the last of all forks.
	Device Device
	// MemoryShare is how much of the device's memory may be in use, by whomever: 0 < share
	// <= 1. 0 = 1.
	MemoryShare float64
	// Parts is how many bf16 parts a product takes an activation apart into: 3 have its
	// 24 bits, 2 its upper 16, and 1 rounds it to 8. 0 = 3.
	Parts int
}

// maxParts hold an F32 without rounding.
const maxParts = 3

// Backend implements [compute.Backend]. It is used from one goroutine at a time.
type Backend struct {
	dev    Device
	shared *shared
	parts  int

	stream Stream
	queue  *kernels.Queue
	mem    arena // buffers, caches and scratch
	err    error // first since the last Sync

	maxRows int     // of all buffers so far
	packed  scratch // activations taken apart
	partial scratch // attention's parts
	ids     scratch // of Embed and Gather
	batches [2]uploaded
	next    int // of batches: the one to be replaced
	mixture mixture
	closed  bool
}

// shared is what all forks have together.
type shared struct {
	users   atomic.Int32
	weights arena
	maxCols atomic.Int64 // of all matrices so far

	memoryShare float64
	abandoned   atomic.Bool
}

var (
	_ compute.Backend = (*Backend)(nil)
	_ compute.Binder  = (*Backend)(nil)
)

// New returns a backend on a device.
func New(o Options) (*Backend, error) {
	if o.Device == nil {
		return nil, errors.New("compute/cuda: no device is given")
	}
	if o.Parts < 0 || o.Parts > maxParts {
		return nil, fmt.Errorf("compute/cuda: parts is %d; it must be from 1 to %d, or 0 for %d", o.Parts, maxParts, maxParts)
	}
	if !(o.MemoryShare >= 0 && o.MemoryShare <= 1) {
		return nil, fmt.Errorf("compute/cuda: the share of memory is %v; it must be above 0 and at most 1", o.MemoryShare)
	}
	share := cmp.Or(o.MemoryShare, 1)
	s := &shared{memoryShare: share}
	s.weights = arena{dev: o.Device, gone: &s.abandoned}
	return newBackend(o.Device, s, cmp.Or(o.Parts, maxParts))
}

func newBackend(dev Device, s *shared, parts int) (*Backend, error) {
	stream, err := dev.NewStream()
	if err != nil {
		return nil, fmt.Errorf("compute/cuda: %w", err)
	}
	s.users.Add(1)
	b := &Backend{dev: dev, shared: s, parts: parts, stream: stream, mem: arena{dev: dev, gone: &s.abandoned}}
	b.queue = kernels.NewQueue(launcher{b})
	for _, sc := range []*scratch{&b.packed, &b.partial, &b.ids, &b.batches[0].memory, &b.batches[1].memory} {
		sc.b = b
	}
	b.mixture.init(b)
	return b, nil
}

// Fork implements compute.Backend.
func (b *Backend) Fork() (compute.Backend, error) {
	if b.closed {
		return nil, errors.New("compute/cuda: the backend is closed")
	}
	if b.shared.abandoned.Load() {
		return nil, fmt.Errorf("compute/cuda: %w", gpu.NewError("fork", gpu.ContextDestroyed, "the backend was abandoned"))
	}
	return newBackend(b.dev, b.shared, b.parts)
}

// Describe implements compute.Backend.
func (b *Backend) Describe() string { return b.dev.Describe() }

// AvailableMemory implements compute.Backend.
func (b *Backend) AvailableMemory() (bytes int64, own bool) {
	free, total, err := b.dev.MemInfo()
	b.note(err)
	return max(0, int64(b.shared.memoryShare*float64(total))-(total-free)), true
}

// Sync implements compute.Backend.
func (b *Backend) Sync() error {
	for i := range b.batches {
		b.batches[i].of = nil // whose memory is the caller's again
	}
	b.note(b.queue.Err())
	b.note(b.stream.Sync())
	err := b.err
	b.err = nil
	if err != nil {
		return fmt.Errorf("compute/cuda: %w", err)
	}
	return nil
}

// Bind implements compute.Binder.
func (b *Backend) Bind() error { return b.stream.Bind() }

// Unbind implements compute.Binder.
func (b *Backend) Unbind() { b.stream.Unbind() }

// note keeps the first error.
func (b *Backend) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// launcher passes launches on until something has failed: memory may be missing that
// they would write to, which would lose the context.
type launcher struct{ b *Backend }

// Launch implements kernels.Launcher.
func (l launcher) Launch(k kernels.Kernel, g kernels.Grid, values []uint64) error {
	if l.b.err != nil {
		return nil
	}
	return l.b.stream.Launch(k, g, values)
}

// write enqueues a copy of elements to the device.
func write[T int32 | float32 | byte](b *Backend, dst Ptr, src []T) {
	if len(src) > 0 && b.err == nil {
		b.note(b.queue.Err())
		b.note(b.stream.Write(dst, bytesOf(src)))
	}
}

// Close implements compute.Backend.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.shared.abandoned.Load() {
		return nil
	}
	errs := []error{b.stream.Sync(), b.mem.freeAll(), b.stream.Close()}
	if b.shared.users.Add(-1) == 0 {
		errs = append(errs, b.shared.weights.freeAll(), b.dev.Close())
	}
	return errors.Join(errs...)
}

// Abandon gives up what this backend and all its forks hold on a device that is lost, so
// that whoever closes them later frees nothing, as the addresses may be others' by then, and
// resets the device.
func (b *Backend) Abandon() error {
	b.shared.abandoned.Store(true)
	return b.dev.Reset()
}

// fail reports a broken invariant of the caller.
func fail(format string, args ...any) { panic(fmt.Sprintf("compute/cuda: "+format, args...)) }
