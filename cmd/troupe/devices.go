package main

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

// device is what a batcher computes with: cores, weights and KV cache of its
// own, so that no failure of one reaches another.
type device struct {
	backend *cpu.Backend
	model   *model.Model
	last    *watchedRunner // the one opened last; nil = none yet
}

// openDevices loads the model once per batcher.
func (s *server) openDevices(p *parts, m *Main) error {
	s.closers = append(s.closers, s.closeSpares)
	for range s.cfg.Scheduler.DataParallelSize {
		d, err := s.openDevice(p, newProgress(m.Stderr, isTerminal(m.Stderr)))
		if err != nil {
			return err
		}
		s.closers = append(s.closers, d.backend.Close, d.model.Close)
		s.devices = append(s.devices, d)
		p.numBlocks = d.model.KVSpec().NumBlocks
	}
	s.parts = p
	return nil
}

func (s *server) openDevice(p *parts, show *progress) (*device, error) {
	threads := 0 // all there are
	if n := s.cfg.Scheduler.DataParallelSize; n > 1 {
		threads = max(1, runtime.GOMAXPROCS(0)/n)
	}
	backend, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	loaded, err := loadModel(s.cfg, p, backend, show)
	if err != nil {
		_ = backend.Close()
		return nil, err
	}
	return &device{backend: backend, model: loaded}, nil
}

// model is what all batchers have the same of.
func (s *server) model() *model.Model { return s.devices[0].model }

// newRunner opens a runner for a batcher. If a step of the one before it has not
// ended, that still uses the device's memory: the batcher then gets another
// device, and the old one is left to its step until the process ends.
func (s *server) newRunner(batcher int) (infer.Runner, error) {
	d := s.devices[batcher]
	if d.last != nil && d.last.steps.Load() > 0 {
		fresh, err := s.openDevice(s.parts, newProgress(io.Discard, false))
		if err != nil {
			return nil, err
		}
		s.sparesMu.Lock()
		s.spares = append(s.spares, fresh)
		s.sparesMu.Unlock()
		*d = *fresh
	}
	r, err := d.model.NewRunner()
	if err != nil {
		return nil, err
	}
	d.last = &watchedRunner{Runner: withFaults(r)}
	return d.last, nil
}

// closeSpares closes the devices that were opened after start-up.
func (s *server) closeSpares() error {
	s.sparesMu.Lock()
	defer s.sparesMu.Unlock()
	var errs []error
	for _, d := range s.spares {
		errs = append(errs, d.model.Close(), d.backend.Close())
	}
	s.spares = nil
	return errors.Join(errs...)
}

// watchedRunner knows whether a step is in flight.
type watchedRunner struct {
	infer.Runner
	steps atomic.Int32
}

// Launch implements infer.Runner.
func (r *watchedRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	r.steps.Add(1)
	end := sync.OnceFunc(func() { r.steps.Add(-1) })
	launched := false
	defer func() {
		if !launched { // a panic: nothing runs
			end()
		}
	}()
	r.Runner.Launch(plan, func(res *infer.StepResult, err error) {
		end()
		done(res, err)
	})
	launched = true
}
