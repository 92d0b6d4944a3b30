package ptxsim

import "github.com/troupe-llm/troupe/gpu"

// event counts how often it was recorded and how often that happened. Fields belong
// to the device's mu.
type event struct {
	dev            *device
	life           int
	recorded, done int64
	at             int64 // the device's clock when it happened last
}

func (d *device) NewEvent() (gpu.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuEventCreate", d.life); err != nil {
		return nil, err
	}
	return &event{dev: d, life: d.life}, nil
}

func (s *stream) Record(e gpu.Event) error {
	const op = "cuEventRecord"
	ev, err := s.event(op, e)
	if err != nil {
		return err
	}
	d := s.dev
	d.mu.Lock()
	if err := d.check(op, s.life); err != nil {
		d.mu.Unlock()
		return err
	}
	ev.recorded++
	n := ev.recorded
	d.mu.Unlock()
	return s.add(op, task{run: func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		ev.done, ev.at = max(ev.done, n), d.clock
		return nil
	}})
}

func (s *stream) WaitEvent(e gpu.Event) error {
	const op = "cuStreamWaitEvent"
	ev, err := s.event(op, e)
	if err != nil {
		return err
	}
	s.dev.mu.Lock()
	n := ev.recorded
	s.dev.mu.Unlock()
	return s.add(op, task{wait: ev, nth: n})
}

// event checks that an event is of the stream's device and life, and that the stream
// does not capture: ours captures one stream by itself.
func (s *stream) event(op string, e gpu.Event) (*event, error) {
	ev, ok := e.(*event)
	if !ok || ev.dev != s.dev || ev.life != s.life {
		return nil, gpu.NewError(op, gpu.InvalidHandle, "the event is not of this device")
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.capturing {
		s.invalid = true
		return nil, gpu.NewError(op, gpu.CaptureIsolation, "")
	}
	return ev, nil
}

// Done executes one operation, if it has to, so that who polls gets on.
func (e *event) Done() (bool, error) {
	d := e.dev
	d.exec.Lock()
	defer d.exec.Unlock()
	for try := 0; ; try++ {
		d.mu.Lock()
		err := d.check("cuEventQuery", e.life)
		done := e.done >= e.recorded
		d.mu.Unlock()
		if err != nil || done || try > 0 {
			return done, err
		}
		if _, err := d.one(); err != nil {
			return false, err
		}
	}
}

func (e *event) Wait() error {
	d := e.dev
	if err := d.Bind(); err != nil {
		return err
	}
	defer d.Unbind()
	d.mu.Lock()
	n := e.recorded
	d.mu.Unlock()
	return d.until("cuEventSynchronize", func() (bool, error) {
		return e.done >= n, d.check("cuEventSynchronize", e.life)
	})
}

// Since counts a million instructions of warps as a millisecond.
func (e *event) Since(start gpu.Event) (float32, error) {
	const op = "cuEventElapsedTime"
	from, ok := start.(*event)
	if !ok || from.dev != e.dev {
		return 0, gpu.NewError(op, gpu.InvalidHandle, "the event is not of this device")
	}
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if err := e.dev.check(op, e.life); err != nil {
		return 0, err
	}
	if e.recorded == 0 || from.recorded == 0 {
		return 0, gpu.NewError(op, gpu.InvalidHandle, "the event was never recorded")
	}
	if e.done < e.recorded || from.done < from.recorded {
		return 0, gpu.NewError(op, gpu.NotReady, "")
	}
	return float32(float64(e.at-from.at) / 1e6), nil
}

func (e *event) Close() error { return nil }

// graph is what a stream captured.
type graph struct {
	dev   *device
	life  int
	tasks []task
}

func (g *graph) NumNodes() int { return len(g.tasks) }
func (g *graph) Close() error  { return nil }

func (s *stream) BeginCapture() error {
	const op = "cuStreamBeginCapture"
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if err := s.dev.check(op, s.life); err != nil {
		return err
	}
	if s.capturing {
		return gpu.NewError(op, gpu.InvalidValue, "the stream captures already")
	}
	s.capturing, s.invalid, s.captured = true, false, nil
	return nil
}

func (s *stream) EndCapture() (gpu.Graph, error) {
	const op = "cuStreamEndCapture"
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if err := s.dev.check(op, s.life); err != nil {
		return nil, err
	}
	if !s.capturing {
		return nil, gpu.NewError(op, gpu.InvalidValue, "the stream does not capture")
	}
	s.capturing = false
	if s.invalid {
		return nil, gpu.NewError(op, gpu.CaptureInvalidated, "")
	}
	return &graph{dev: s.dev, life: s.life, tasks: s.captured}, nil
}

func (s *stream) LaunchGraph(g gpu.Graph) error {
	const op = "cuGraphLaunch"
	gr, ok := g.(*graph)
	if !ok || gr.dev != s.dev || gr.life != s.life {
		return gpu.NewError(op, gpu.InvalidHandle, "the graph is not of this device")
	}
	for _, t := range gr.tasks {
		if err := s.add(op, t); err != nil {
			return err
		}
	}
	return nil
}
