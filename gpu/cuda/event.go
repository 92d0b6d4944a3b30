//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"errors"
	"unsafe"

	"github.com/troupe-llm/troupe/gpu"
)

// blockingSync has who waits for an event sleep (CU_EVENT_BLOCKING_SYNC).
const blockingSync = 1

// event is an Event.
type event struct {
	dev    *device
	life   int
	handle uintptr
}

func (d *device) NewEvent() (gpu.Event, error) {
	e := &event{dev: d, life: int(d.life.Load())}
	if err := d.lib.call(cuEventCreate, uintptr(unsafe.Pointer(&e.handle)), blockingSync); err != nil {
		return nil, err
	}
	return e, nil
}

// event returns an event of this stream's device and life.
func (s *stream) event(f function, e gpu.Event) (*event, error) {
	ev, ok := e.(*event)
	if !ok || ev.dev != s.dev || ev.life != s.life || ev.handle == 0 {
		return nil, gpu.NewError(symbols[f], gpu.InvalidHandle, "the event is not of this device, or was closed")
	}
	return ev, s.dev.valid(f, s.life)
}

func (s *stream) Record(e gpu.Event) error {
	ev, err := s.event(cuEventRecord, e)
	if err != nil {
		return err
	}
	return s.dev.lib.call(cuEventRecord, ev.handle, s.handle)
}

func (s *stream) WaitEvent(e gpu.Event) error {
	ev, err := s.event(cuStreamWaitEvent, e)
	if err != nil {
		return err
	}
	return s.dev.lib.call(cuStreamWaitEvent, s.handle, ev.handle, 0)
}

func (e *event) Done() (bool, error) {
	if err := e.dev.valid(cuEventQuery, e.life); err != nil {
		return false, err
	}
	err := e.dev.lib.call(cuEventQuery, e.handle)
	if errors.Is(err, gpu.NotReady) {
		return false, nil
	}
	return err == nil, err
}

// Wait binds for itself: it is for goroutines that do nothing but wait.
func (e *event) Wait() error {
	if err := e.dev.Bind(); err != nil {
		return err
	}
	defer e.dev.Unbind()
	if err := e.dev.valid(cuEventSynchronize, e.life); err != nil {
		return err
	}
	return e.dev.lib.call(cuEventSynchronize, e.handle)
}

func (e *event) Since(start gpu.Event) (float32, error) {
	from, ok := start.(*event)
	if !ok || from.dev != e.dev || from.life != e.life {
		return 0, gpu.NewError(symbols[cuEventElapsedTime], gpu.InvalidHandle, "the event is not of this device")
	}
	if err := e.dev.valid(cuEventElapsedTime, e.life); err != nil {
		return 0, err
	}
	var ms float32
	err := e.dev.lib.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), from.handle, e.handle)
	return ms, err
}

func (e *event) Close() error {
	if e.handle == 0 || e.dev.valid(cuEventDestroy, e.life) != nil {
		return nil
	}
	handle := e.handle
	e.handle = 0
	return e.dev.lib.call(cuEventDestroy, handle)
}

// graph is an instantiated graph.
type graph struct {
	dev    *device
	life   int
	handle uintptr
	nodes  int
}

func (g *graph) NumNodes() int { return g.nodes }

func (g *graph) Close() error {
	if g.handle == 0 || g.dev.valid(cuGraphExecDestroy, g.life) != nil {
		return nil
	}
	handle := g.handle
	g.handle = 0
	return g.dev.lib.call(cuGraphExecDestroy, handle)
}
