package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
)

// openModel loads the model once for all batchers. Each batcher's runner has a
// share of the cores and a KV cache of its own.
func (s *server) openModel(p *parts, m *Main) error {
	threads := 0 // all there are
	if n := s.cfg.Scheduler.DataParallelSize; n > 1 {
		threads = max(1, runtime.GOMAXPROCS(0)/n)
	}
	backend, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, backend.Close)
	s.model, err = loadModel(s.cfg, p, backend, newProgress(m.Stderr, isTerminal(m.Stderr)))
	return err
}

// newRunner opens a runner for a batcher. One that is still busy with a step of
// the batcher before it is no hindrance: runners share the weights alone. Those
// that the server starts with are warmed up; later on requests wait for one, which
// will be as warm after its first step.
func (s *server) newRunner(int) (infer.Runner, error) {
	r, err := s.model.NewRunner()
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
