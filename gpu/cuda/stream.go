//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/troupe-llm/troupe/gpu"
)

// Flags of the driver API.
const (
	nonBlocking    = 1 // CU_STREAM_NON_BLOCKING: not ordered with the default stream
	captureRelaxed = 2 // CU_STREAM_CAPTURE_MODE_RELAXED: begun and ended on any thread
)

// stream is a Stream. block is the parameter block of its launches, which the driver
// reads before a launch returns.
type stream struct {
	dev    *device
	life   int
	handle uintptr
	block  *block
}

// block has values, their addresses, and the arguments of cuLaunchKernel, so that a
// launch allocates nothing here. Its addresses are kept as numbers, too: it is on the
// heap, where nothing moves, and the stream holds it.
type block struct {
	values  [gpu.MaxParams]uint64
	address [gpu.MaxParams]unsafe.Pointer
	args    [11]uintptr
}

func (d *device) NewStream() (gpu.Stream, error) {
	s := &stream{dev: d, life: int(d.life.Load()), block: &block{}}
	if err := d.lib.call(cuStreamCreate, uintptr(unsafe.Pointer(&s.handle)), nonBlocking); err != nil {
		return nil, err
	}
	for i := range s.block.values {
		s.block.address[i] = unsafe.Pointer(&s.block.values[i])
	}
	s.block.args[8], s.block.args[9] = s.handle, uintptr(unsafe.Pointer(&s.block.address))
	return s, nil
}

func (s *stream) CopyToDevice(dst gpu.Ptr, src []byte) error {
	return s.copyPinned(cuMemcpyHtoDAsync, src, func(at uintptr) error {
		return s.dev.lib.call(cuMemcpyHtoDAsync, uintptr(dst), at, uintptr(len(src)), s.handle)
	})
}

func (s *stream) CopyToHost(dst []byte, src gpu.Ptr) error {
	return s.copyPinned(cuMemcpyDtoHAsync, dst, func(at uintptr) error {
		return s.dev.lib.call(cuMemcpyDtoHAsync, at, uintptr(src), uintptr(len(dst)), s.handle)
	})
}

// copyPinned checks host memory that the driver is to use after the call.
func (s *stream) copyPinned(f function, host []byte, enqueue func(at uintptr) error) error {
	if err := s.dev.valid(f, s.life); err != nil || len(host) == 0 {
		return err
	}
	if !s.dev.isPinned(host) {
		return gpu.NewError(symbols[f], gpu.InvalidValue, fmt.Sprintf("%d bytes of host memory that is not pinned", len(host)))
	}
	return enqueue(uintptr(unsafe.Pointer(unsafe.SliceData(host))))
}

func (s *stream) CopyOnDevice(dst, src gpu.Ptr, n int64) error {
	if err := s.dev.valid(cuMemcpyDtoDAsync, s.life); err != nil || n == 0 {
		return err
	}
	return s.dev.lib.call(cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), s.handle)
}

func (s *stream) Memset(dst gpu.Ptr, v byte, n int64) error {
	if err := s.dev.valid(cuMemsetD8Async, s.life); err != nil || n == 0 {
		return err
	}
	return s.dev.lib.call(cuMemsetD8Async, uintptr(dst), uintptr(v), uintptr(n), s.handle)
}

func (s *stream) Launch(f gpu.Func, c gpu.LaunchConfig, params []uint64) error {
	k, ok := f.(*kernel)
	if !ok || k.dev != s.dev || k.life != s.life {
		return gpu.NewError(symbols[cuLaunchKernel], gpu.InvalidHandle, "the kernel is not of this device")
	}
	if err := s.dev.valid(cuLaunchKernel, s.life); err != nil {
		return err
	}
	if len(params) != len(k.info.Params) {
		return gpu.NewError(symbols[cuLaunchKernel], gpu.InvalidValue, fmt.Sprintf("kernel %s: %d parameters; it takes %d", k.info.Name, len(params), len(k.info.Params)))
	}
	for i := range 3 {
		if c.Grid[i] < 1 || c.Block[i] < 1 || c.Shared < 0 {
			return gpu.NewError(symbols[cuLaunchKernel], gpu.InvalidValue, fmt.Sprintf("kernel %s: %+v", k.info.Name, c))
		}
	}
	b := s.block
	copy(b.values[:], params)
	b.args[0] = k.handle
	for i := range 3 {
		b.args[1+i], b.args[4+i] = uintptr(c.Grid[i]), uintptr(c.Block[i])
	}
	b.args[7] = uintptr(c.Shared)
	r, _, _ := purego.SyscallN(s.dev.lib.at[cuLaunchKernel], b.args[:]...)
	runtime.KeepAlive(b)
	err := s.dev.lib.check(cuLaunchKernel, r)
	if e, ok := err.(*gpu.Error); ok {
		e.Detail = "kernel " + k.info.Name
	}
	return err
}

func (s *stream) BeginCapture() error {
	if err := s.dev.valid(cuStreamBeginCapture, s.life); err != nil {
		return err
	}
	return s.dev.lib.call(cuStreamBeginCapture, s.handle, captureRelaxed)
}

func (s *stream) EndCapture() (gpu.Graph, error) {
	if err := s.dev.valid(cuStreamEndCapture, s.life); err != nil {
		return nil, err
	}
	lib := s.dev.lib
	var captured, nodes uintptr
	if err := lib.call(cuStreamEndCapture, s.handle, uintptr(unsafe.Pointer(&captured))); err != nil {
		return nil, err
	}
	if captured == 0 {
		return nil, gpu.NewError(symbols[cuStreamEndCapture], gpu.CaptureInvalidated, "")
	}
	g := &graph{dev: s.dev, life: s.life}
	err := lib.call(cuGraphGetNodes, captured, 0, uintptr(unsafe.Pointer(&nodes)))
	if err == nil {
		g.nodes = int(nodes)
		err = lib.call(cuGraphInstantiate, uintptr(unsafe.Pointer(&g.handle)), captured, 0)
	}
	if e := lib.call(cuGraphDestroy, captured); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (s *stream) LaunchGraph(g gpu.Graph) error {
	gr, ok := g.(*graph)
	if !ok || gr.dev != s.dev || gr.life != s.life || gr.handle == 0 {
		return gpu.NewError(symbols[cuGraphLaunch], gpu.InvalidHandle, "the graph is not of this device, or was closed")
	}
	if err := s.dev.valid(cuGraphLaunch, s.life); err != nil {
		return err
	}
	return s.dev.lib.call(cuGraphLaunch, gr.handle, s.handle)
}

func (s *stream) Sync() error {
	if err := s.dev.valid(cuStreamSynchronize, s.life); err != nil {
		return err
	}
	return s.dev.lib.call(cuStreamSynchronize, s.handle)
}

func (s *stream) Close() error {
	if s.handle == 0 {
		return nil
	}
	handle := s.handle
	s.handle = 0
	if s.dev.valid(cuStreamDestroy, s.life) != nil {
		return nil
	}
	return s.dev.lib.call(cuStreamDestroy, handle)
}
