package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/compute/cuda"
	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

// openModel loads the model: on the CPU once for all batchers, whose runners have a share of
// the cores and a KV cache of their own; on GPUs once for each, whose batcher is its only one.
func (s *server) openModel(p *parts, m *Main) error {
	backends, err := s.openBackends()
	if err != nil {
		return err
	}
	for _, backend := range backends {
		one, err := loadModel(s.cfg, p, backend, newProgress(m.Stderr, isTerminal(m.Stderr)))
		if err != nil {
			return err
		}
		s.models = append(s.models, one)
	}
	s.model = s.models[0]
	return nil
}

// openBackends opens what --device names.
func (s *server) openBackends() (backends []compute.Backend, err error) {
	d := s.cfg.Device()
	driver, err := openDriver(d)
	switch {
	case err != nil && d.Kind != config.DeviceAuto:
		return nil, fmt.Errorf("--device %s: %w", d.Kind, err)
	case err != nil:
		s.noGPU = err
	case driver != nil:
		return s.openGPUs(driver, d)
	}
	threads := 0 // all there are
	if n := s.cfg.Scheduler.DataParallelSize; n > 1 {
		threads = max(1, runtime.GOMAXPROCS(0)/n)
	}
	backend, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, backend.Close)
	return []compute.Backend{backend}, nil
}

// openGPUs opens one device for each batcher.
func (s *server) openGPUs(driver gpu.Driver, d config.Device) (backends []compute.Backend, err error) {
	indexes := d.Indexes
	for i := 0; d.Indexes == nil && i < s.cfg.Scheduler.DataParallelSize; i++ {
		indexes = append(indexes, i)
	}
	for _, i := range indexes {
		if i >= driver.NumDevices() {
			return nil, fmt.Errorf("--device %s: device %d is asked for, but there are %d", d.Kind, i, driver.NumDevices())
		}
		backend, err := s.openGPU(driver, i)
		if err != nil {
			return nil, err
		}
		backends = append(backends, backend)
	}
	return backends, nil
}

func (s *server) openGPU(driver gpu.Driver, i int) (compute.Backend, error) {
	device, err := driver.Open(i)
	if err != nil {
		return nil, err
	}
	loaded, err := cuda.Open(device, fmt.Sprintf("%s:%d", driver.Name(), i))
	if err != nil {
		return nil, err
	}
	backend, err := cuda.New(cuda.Options{Device: loaded, MemoryShare: s.cfg.MemoryFraction()})
	if err != nil {
		return nil, errors.Join(err, loaded.Close())
	}
	s.closers = append(s.closers, backend.Close)
	return backend, nil
}

// newRunner opens a runner for a batcher. One that is still busy with a step of
// the batcher before it is no hindrance: runners share the weights alone. Those
// that the server starts with are warmed up; later on requests wait for one, which
// will be as warm after its first step.
func (s *server) newRunner(batcher int) (infer.Runner, error) {
	r, err := s.modelOf(batcher).NewRunner()
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

// modelOf returns a batcher's model.
func (s *server) modelOf(batcher int) *model.Model { return s.models[batcher%len(s.models)] }
