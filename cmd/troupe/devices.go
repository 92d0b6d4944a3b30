package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/compute/cuda"
	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

// served is a model on its device.
type served struct {
	log  *slog.Logger
	open func() (compute.Backend, error)                           // takes the device into use
	load func(b compute.Backend, again bool) (*model.Model, error) // again: after the device was lost

	mu      sync.Mutex // of whoever opens a runner
	backend compute.Backend
	model   *model.Model
}

// openModel loads the model: on the CPU once for all batchers, whose runners have a share of
// the cores and a KV cache of their own; on GPUs once for each, whose batcher is its only one.
func (s *server) openModel(p *parts, m *Main) error {
	opens, err := s.findDevices(m)
	if err != nil {
		return err
	}
	load := func(b compute.Backend, again bool) (*model.Model, error) {
		show := newProgress(m.Stderr, isTerminal(m.Stderr))
		if again {
			show = newProgress(io.Discard, false)
		}
		return loadModel(s.cfg, p, b, show, s.log)
	}
	for _, open := range opens {
		d := &served{log: s.log, open: open, load: load}
		s.closers = append(s.closers, d.close)
		if err := d.start(false); err != nil {
			return err
		}
		s.devices = append(s.devices, d)
	}
	s.model = s.devices[0].model
	return nil
}

// findDevices returns what takes the devices into use that --device names.
func (s *server) findDevices(m *Main) (opens []func() (compute.Backend, error), err error) {
	d := s.cfg.Device()
	if s.cfg.Cluster.Role == config.RoleFront { // it computes nothing
		d = config.Device{Kind: config.DeviceCPU}
	}
	driver, err := openDriver(d, m.Getenv)
	if err == nil && driver != nil {
		opens, err = s.findGPUs(driver, d)
	}
	switch {
	case err != nil && d.Kind != config.DeviceAuto:
		return nil, fmt.Errorf("--device %s: %w", d.Kind, err)
	case err != nil:
		s.noGPU = err
	case driver != nil:
		return opens, nil
	}
	threads := 0 // all there are
	if n := s.cfg.Scheduler.DataParallelSize; n > 1 {
		threads = max(1, runtime.GOMAXPROCS(0)/n)
	}
	return append(opens, func() (compute.Backend, error) { return cpu.New(cpu.Options{Threads: threads}) }), nil
}

// findGPUs returns one device for each batcher.
func (s *server) findGPUs(driver gpu.Driver, d config.Device) (opens []func() (compute.Backend, error), err error) {
	indexes := d.Indexes
	for i := 0; d.Indexes == nil && i < s.cfg.Scheduler.DataParallelSize; i++ {
		indexes = append(indexes, i)
	}
	for _, i := range indexes {
		if err := cuda.Check(driver, i); err != nil {
			return nil, err
		}
		opens = append(opens, func() (compute.Backend, error) { return openGPU(driver, i, s.cfg.MemoryFraction()) })
	}
	return opens, nil
}

func openGPU(driver gpu.Driver, i int, memoryShare float64) (compute.Backend, error) {
	device, err := driver.Open(i)
	if err != nil {
		return nil, err
	}
	loaded, err := cuda.Open(device, fmt.Sprintf("%s:%d", driver.Name(), i))
	if err != nil {
		return nil, err
	}
	backend, err := cuda.New(cuda.Options{Device: loaded, MemoryShare: memoryShare})
	if err != nil {
		return nil, errors.Join(err, loaded.Close())
	}
	return backend, nil
}

// start loads the model.
func (d *served) start(again bool) error {
	backend, err := d.open()
	if err != nil {
		return err
	}
	loaded, err := d.load(backend, again)
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	d.backend, d.model = backend, loaded
	return nil
}

// close gives up the device, once no runner is open.
func (d *served) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		return nil
	}
	return d.backend.Close()
}

// newRunner opens a runner. If the device's context is lost, which later runners would not
// survive either, it is reset and the model loaded again.
func (d *served) newRunner() (*model.Runner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.model.NewRunner()
	lost, isGPU := d.backend.(*cuda.Backend)
	var cause *gpu.Error
	if !isGPU || !errors.As(err, &cause) || !cause.Sticky() {
		return r, err
	}
	d.log.Warn("A device is lost, and is reset: " + lost.Describe() + ": " + err.Error())
	if err := errors.Join(lost.Abandon(), d.start(true)); err != nil {
		return nil, fmt.Errorf("after the reset of a device: %w", err)
	}
	return d.model.NewRunner()
}

// newRunner opens a runner for a batcher. One that is still busy with a step of
// the batcher before it is no hindrance: runners share the weights alone. Those
// that the server starts with are warmed up; later on requests wait for one, which
// will be as warm after its first step.
func (s *server) newRunner(batcher int) (infer.Runner, error) {
	r, err := s.devices[batcher%len(s.devices)].newRunner()
	if err != nil {
		return nil, err
	}
	if !s.isReady.Load() {
		if err := r.WarmUp(); err != nil {
			return nil, errors.Join(fmt.Errorf("warming up: %w", err), r.Close())
		}
	}
	return withFaults(r), nil
}
