package ptxsim

import (
	"fmt"

	"github.com/troupe-llm/troupe/gpu"
)

// maxQueued is how many operations a stream holds before enqueueing another one
// executes some, as the driver makes its callers wait.
const maxQueued = 4096

// task is an operation of a stream.
type task struct {
	run  func() error
	wait *event // what it waits for, if anything: until it happened ticket times
	nth  int64
}

// stream is a queue of tasks. Fields belong to the device's mu.
type stream struct {
	dev       *device
	life      int
	queue     []task
	capturing bool
	invalid   bool   // the capture was broken
	captured  []task // by the capture
}

func (d *device) NewStream() (gpu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuStreamCreate", d.life); err != nil {
		return nil, err
	}
	s := &stream{dev: d, life: d.life}
	d.streams = append(d.streams, s)
	return s, nil
}

// enqueue adds a task, or notes it for the graph that is captured. The caller holds mu.
func (s *stream) enqueue(op string, t task) error {
	if err := s.dev.check(op, s.life); err != nil {
		return err
	}
	if s.capturing {
		s.captured = append(s.captured, t)
		return nil
	}
	s.queue = append(s.queue, t)
	return nil
}

// add enqueues a task and now and then executes some.
func (s *stream) add(op string, t task) error {
	d := s.dev
	d.mu.Lock()
	err := s.enqueue(op, t)
	some := len(s.queue) > maxQueued
	d.mu.Unlock()
	if err != nil || (!some && d.rng == nil) {
		return err
	}
	if d.exec.TryLock() { // who executes now makes progress anyhow
		defer d.exec.Unlock()
		for n := d.random(3); n > 0 || some; n-- {
			if done, _ := d.one(); !done {
				break
			}
			d.mu.Lock()
			some = len(s.queue) > maxQueued/2
			d.mu.Unlock()
		}
	}
	return nil
}

// random returns a number below n, 0 without a seed. The caller holds exec.
func (d *device) random(n int) int {
	if d.rng == nil {
		return 0
	}
	return d.rng.IntN(n)
}

// one executes one task that waits for nothing, and tells whether there was one.
// The caller holds exec. A task's error is the device's from then on.
func (d *device) one() (bool, error) {
	d.mu.Lock()
	var ready []*stream
	for _, s := range d.streams {
		if len(s.queue) > 0 && (s.queue[0].wait == nil || s.queue[0].wait.done >= s.queue[0].nth) {
			ready = append(ready, s)
		}
	}
	if d.lost != nil || len(ready) == 0 {
		d.mu.Unlock()
		return false, nil
	}
	s := ready[d.random(len(ready))]
	t := s.queue[0]
	s.queue = s.queue[1:]
	d.mu.Unlock()
	if t.run == nil {
		return true, nil
	}
	err := t.run()
	if e, ok := err.(*gpu.Error); ok {
		d.lose(e)
	}
	return true, err
}

// until executes tasks until the condition holds, which is asked with mu held.
func (d *device) until(op string, holds func() (bool, error)) error {
	d.exec.Lock()
	defer d.exec.Unlock()
	for {
		d.mu.Lock()
		ok, err := holds()
		if d.lost != nil {
			ok, err = true, d.lost
		}
		d.mu.Unlock()
		if ok || err != nil {
			return err
		}
		if done, err := d.one(); err != nil {
			return err
		} else if !done {
			return gpu.NewError(op, gpu.LaunchTimeout, "what it waits for is in no queue, or waits for it")
		}
	}
}

// drain executes all that is enqueued.
func (d *device) drain(op string) error {
	return d.until(op, func() (bool, error) {
		if err := d.check(op, d.life); err != nil {
			return false, err
		}
		for _, s := range d.streams {
			if s.capturing {
				s.invalid = true
				return false, gpu.NewError(op, gpu.CaptureUnsupported, "a stream is capturing")
			}
			if len(s.queue) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// Sync executes all of the stream, and of others what that waits for.
func (s *stream) Sync() error {
	return s.dev.until("cuStreamSynchronize", func() (bool, error) {
		if err := s.dev.check("cuStreamSynchronize", s.life); err != nil {
			return false, err
		}
		if s.capturing {
			s.invalid = true
			return false, gpu.NewError("cuStreamSynchronize", gpu.CaptureUnsupported, "")
		}
		return len(s.queue) == 0, nil
	})
}

func (s *stream) Close() error { return nil }

func (s *stream) CopyToDevice(dst gpu.Ptr, src []byte) error {
	return s.copyPinned("cuMemcpyHtoDAsync", dst, src, true)
}

func (s *stream) CopyToHost(dst []byte, src gpu.Ptr) error {
	return s.copyPinned("cuMemcpyDtoHAsync", src, dst, false)
}

func (s *stream) copyPinned(op string, p gpu.Ptr, host []byte, toDevice bool) error {
	d := s.dev
	d.mu.Lock()
	pinned := len(host) == 0 || d.isPinned(host)
	d.mu.Unlock()
	if !pinned {
		return gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("%d bytes of host memory that is not pinned", len(host)))
	}
	if len(host) == 0 {
		return nil
	}
	return s.add(op, task{run: func() error {
		b, err := d.mem.bytes(op, p, len(host), toDevice)
		if err == nil && toDevice {
			copy(b, host)
		} else if err == nil {
			copy(host, b)
		}
		return err
	}})
}

// CopyOnDevice copies what is known of bytes too: what was not written stays so.
func (s *stream) CopyOnDevice(dst, src gpu.Ptr, n int64) error {
	const op = "cuMemcpyDtoDAsync"
	d := s.dev
	if n == 0 {
		return nil
	}
	return s.add(op, task{run: func() error {
		from, err := d.mem.part(op, src, n)
		if err != nil {
			return err
		}
		to, err := d.mem.part(op, dst, n)
		if err != nil {
			return err
		}
		if dst < src+gpu.Ptr(n) && src < dst+gpu.Ptr(n) {
			return gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("source %#x and target %#x of %d bytes overlap", src, dst, n))
		}
		copy(to.data, from.data)
		for i, st := range from.state {
			if to.state[i] = fresh; st == written {
				to.state[i] = written
			}
		}
		return nil
	}})
}

func (s *stream) Memset(dst gpu.Ptr, v byte, n int64) error {
	const op = "cuMemsetD8Async"
	if n == 0 {
		return nil
	}
	return s.add(op, task{run: func() error {
		b, err := s.dev.mem.bytes(op, dst, int(n), true)
		if err == nil {
			fill(b, v)
		}
		return err
	}})
}

// Launch checks what the driver would check and notes the parameters.
func (s *stream) Launch(f gpu.Func, c gpu.LaunchConfig, params []uint64) error {
	const op = "cuLaunchKernel"
	fn, ok := f.(*function)
	if !ok || fn.dev != s.dev {
		return gpu.NewError(op, gpu.InvalidHandle, "the kernel is not of this device")
	}
	if detail := fn.refuses(c, params); detail != "" {
		return gpu.NewError(op, gpu.InvalidValue, "kernel "+fn.k.name+": "+detail)
	}
	block := make([]byte, fn.k.paramBytes)
	for i, p := range fn.k.params {
		put(block[fn.k.paramAt[p.Name]:], p.Size, params[i])
	}
	return s.add(op, task{run: func() error { return s.dev.execute(op, fn.k, c, block) }})
}

// refuses says what is wrong with a launch, or nothing.
func (f *function) refuses(c gpu.LaunchConfig, params []uint64) string {
	blocks := int64(1)
	for i, limit := range [3]int64{1<<31 - 1, 65535, 65535} {
		if n := int64(c.Grid[i]); n < 1 || n > limit {
			return fmt.Sprintf("a grid of %v blocks", c.Grid)
		}
		if blocks *= int64(c.Grid[i]); blocks > 1<<22 {
			return fmt.Sprintf("a grid of %v blocks; the simulator runs at most %d", c.Grid, 1<<22)
		}
		if c.Block[i] < 1 || c.Block[i] > 1024 {
			return fmt.Sprintf("blocks of %v threads", c.Block)
		}
	}
	switch n := c.Threads(); {
	case n > f.k.maxThreads:
		return fmt.Sprintf("blocks of %d threads; it takes %d", n, f.k.maxThreads)
	case len(params) != len(f.k.params):
		return fmt.Sprintf("%d parameters; it takes %d", len(params), len(f.k.params))
	case c.Shared < 0 || c.Shared+f.k.shared > f.maxShared:
		return fmt.Sprintf("%d bytes of dynamic and %d of static shared memory; %d are allowed", c.Shared, f.k.shared, f.maxShared)
	}
	return ""
}

// execute runs a kernel. The caller holds exec.
func (d *device) execute(op string, k *kernel, c gpu.LaunchConfig, params []byte) error {
	if err := d.inject(OnLaunch, op); err != nil {
		return err
	}
	d.mu.Lock()
	mem := d.mem
	d.mu.Unlock()
	if d.segment > maxSegment/2 {
		mem.forget()
		d.segment = 0
	}
	l := &launch{k: k, mem: mem, cfg: c, params: params, rng: d.rng, maxJumps: d.opts.MaxBranches, last: d.segment}
	err := l.run()
	d.segment = l.last
	d.clock += l.steps
	st := d.kernels[k.name]
	st.Launches, st.Blocks, st.Instructions = st.Launches+1, st.Blocks+int64(c.Grid[0]*c.Grid[1]*c.Grid[2]), st.Instructions+l.steps
	d.kernels[k.name] = st
	if f, ok := err.(*Fault); ok {
		return f.error(op)
	}
	return err
}
