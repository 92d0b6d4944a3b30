package main

import (
	"runtime"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

// openDevices loads the model once per batcher. Each has its own cores, weights
// and KV cache, so that no failure of one reaches another.
func (s *server) openDevices(p *parts, m *Main) error {
	n := s.cfg.Scheduler.DataParallelSize
	threads := 0 // all there are
	if n > 1 {
		threads = max(1, runtime.GOMAXPROCS(0)/n)
	}
	for range n {
		backend, err := cpu.New(cpu.Options{Threads: threads})
		if err != nil {
			return err
		}
		s.closers = append(s.closers, backend.Close)
		loaded, err := loadModel(s.cfg, p, backend, newProgress(m.Stderr, isTerminal(m.Stderr)))
		if err != nil {
			return err
		}
		s.closers = append(s.closers, loaded.Close)
		s.models = append(s.models, loaded)
		p.numBlocks = loaded.KVSpec().NumBlocks
	}
	return nil
}

// model is what all batchers have the same of.
func (s *server) model() *model.Model { return s.models[0] }

func (s *server) newRunner(batcher int) (infer.Runner, error) {
	r, err := s.models[batcher].NewRunner()
	if err != nil {
		return nil, err
	}
	return withFaults(r), nil
}
