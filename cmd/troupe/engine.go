package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/enginebench"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/model/understudy"
)

// benchModel runs `troupe bench model`.
func (m *Main) benchModel() error {
	cfg := &m.cli.Bench.Model
	return writeRandom(cfg.File, cfg.Shape, cfg.Type, cfg.Seed)
}

// writeRandom writes a model of random weights. Check has found the names.
func writeRandom(path, shape, typ string, seed uint64) error {
	s, err := randommodel.Find(shape)
	if err != nil {
		return err
	}
	t, err := randommodel.FindType(typ)
	if err != nil {
		return err
	}
	return randommodel.WriteFile(path, s, t, seed)
}

// benchEngine runs `troupe bench engine`.
func (m *Main) benchEngine(ctx context.Context) (err error) {
	cfg := &m.cli.Bench.Engine
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	engines, err := m.openEngines(ctx, cfg)
	defer func() {
		for _, e := range engines {
			err = errors.Join(err, e.Close())
		}
	}()
	if err != nil {
		return err
	}
	report, err := enginebench.Measure(ctx, engines, enginebench.Plan{
		Prefills: cfg.Prefill, Batches: cfg.Decode, Context: cfg.Context, Tokens: cfg.Tokens,
		Repetitions: cfg.Repetitions, Threads: cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0)), ReadBytes: int64(cfg.ReadMiB) << 20, Note: m.noteTurn(),
	})
	if err != nil {
		return err
	}
	return m.writeReport(report, cfg.JSON)
}

// noteTurn returns what keeps a line on a terminal up to date.
func (m *Main) noteTurn() func(string) {
	if !isTerminal(m.Stderr) {
		return func(string) {}
	}
	return func(text string) { fmt.Fprintf(m.Stderr, "%s%s ", clearLine, text) }
}

// openEngines opens the models that are named, then those of random weights. On an
// error those that are open are returned, too.
func (m *Main) openEngines(ctx context.Context, cfg *config.BenchEngine) (engines []*enginebench.Engine, err error) {
	open := func(name, path string) error {
		folder, err := openFolder(path)
		if err != nil {
			return err
		}
		e, err := enginebench.Open(enginebench.Load{
			Name: name, Folder: folder, Quantization: cfg.Quantization, KVCacheDType: cfg.KVCacheDType, Threads: cfg.Threads,
			MaxNumSeqs: cfg.MaxNumSeqs(), MaxTokens: cfg.MaxTokens(), MaxModelLen: cfg.ContextLength(),
		})
		if err == nil {
			engines = append(engines, e)
		}
		return cmp.Or(err, ctx.Err())
	}
	for _, path := range cfg.Models {
		if err := open(filepath.Base(path), path); err != nil {
			return engines, err
		}
	}
	for _, shape := range cfg.Shape {
		for _, typ := range cfg.Type {
			err := withRandom(shape, typ, func(path string) error { return open("random "+shape, path) })
			if err != nil {
				return engines, err
			}
		}
	}
	if len(engines) == 0 {
		err = open(understudy.Name, "")
	}
	return engines, err
}

// withRandom calls use with a file of random weights, which is gone afterwards: what
// is loaded does not need it any more.
func withRandom(shape, typ string, use func(path string) error) (err error) {
	dir, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, shape+"-"+typ+".gguf")
	if err := writeRandom(path, shape, typ, 1); err != nil {
		return err
	}
	return use(path)
}
