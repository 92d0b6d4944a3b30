package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/enginebench"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/gguf"
	"github.com/troupe-llm/troupe/model/hub"
	"github.com/troupe-llm/troupe/model/understudy"
)

// benchModel runs `troupe bench model`.
func (m *Main) benchModel(ctx context.Context) error {
	cfg := &m.cli.Bench.Model
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	random, err := randommodel.FindModel(cfg.Shape, cfg.Type, cfg.Seed)
	if err != nil {
		return err
	}
	return interrupted(random.WriteFile(ctx, cfg.File))
}

// interrupted says what a signal did.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: nothing was written")
	}
	return err
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
	note, done := m.noteTurn()
	report, err := enginebench.Measure(ctx, engines, enginebench.Plan{
		Prefills: cfg.Prefill, Batches: cfg.Decode, Context: cfg.Context, Tokens: cfg.Tokens,
		Repetitions: cfg.Repetitions, Threads: cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0)), ReadBytes: int64(cfg.ReadMiB) << 20, Note: note,
	})
	done()
	if err != nil {
		return err
	}
	return m.writeReport(report, cfg.JSON)
}

// noteTurn returns what keeps a line on a terminal up to date, and what takes it away.
func (m *Main) noteTurn() (note func(string), done func()) {
	if !isTerminal(m.Stderr) {
		return func(string) {}, func() {}
	}
	return func(text string) { fmt.Fprintf(m.Stderr, "%s%s ", clearLine, text) }, func() { fmt.Fprint(m.Stderr, clearLine) }
}

// openEngines opens the models that are named, then those of random weights. On an
// error those that are open are returned, too.
func (m *Main) openEngines(ctx context.Context, cfg *config.BenchEngine) (engines []*enginebench.Engine, err error) {
	open := func(name, path string) error {
		more, err := openModel(ctx, cfg, name, path)
		engines = append(engines, more...)
		return err
	}
	for _, given := range cfg.Models {
		path, err := m.localModel(ctx, given)
		if err == nil {
			err = open(filepath.Base(given), path)
		}
		if err != nil {
			return engines, err
		}
	}
	for _, shape := range cfg.Shape {
		for _, typ := range cfg.Type {
			random, err := randommodel.FindModel(shape, typ, 1)
			if err == nil {
				err = checkRoom(&random, cfg.Quantization, model.AvailableMemory())
			}
			if err == nil {
				err = withRandom(ctx, &random, func(path string) error { return open("random "+shape, path) })
			}
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

// openModel opens a model once for each quantization. On an error those that are open
// are returned, too.
func openModel(ctx context.Context, cfg *config.BenchEngine, name, path string) (engines []*enginebench.Engine, err error) {
	folder, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	for _, quantization := range cfg.Quantization {
		e, err := enginebench.Open(enginebench.Load{
			Name: name, Folder: folder, Quantization: quantization, KVCacheDType: cfg.KVCacheDType, Threads: cfg.Threads,
			MaxNumSeqs: cfg.MaxNumSeqs(), MaxTokens: cfg.MaxTokens(), MaxModelLen: cfg.ContextLength(),
		})
		if err != nil {
			return engines, err
		}
		if engines = append(engines, e); ctx.Err() != nil {
			return engines, errors.New("interrupted before anything was measured")
		}
	}
	return engines, nil
}

// localModel returns where a model is on disk, fetching what is missing of one of a hub.
func (m *Main) localModel(ctx context.Context, given string) (string, error) {
	name, ok := hubName(given)
	if !ok {
		return given, nil
	}
	got, err := m.fetch(ctx, name, hub.Options{Check: isServable})
	return got.Path, err
}

// checkRoom refuses a model of random weights that is too large for so many bytes of
// memory, before it is written.
func checkRoom(m *randommodel.Model, quantizations []string, available int64) error {
	for _, q := range quantizations {
		held := m.Type
		if q != "none" && (held == gguf.BF16 || held == gguf.F16) {
			var err error
			if held, err = randommodel.FindType(q); err != nil {
				return err
			}
		}
		if need := m.Shape.Bytes(held); need > available {
			return fmt.Errorf("the weights of a random %s in %s take %d bytes of memory, but only %d are available: choose a smaller shape or type",
				m.Shape.Name, strings.ToLower(held.String()), need, available)
		}
	}
	return nil
}

// withRandom calls use with a file of random weights, which is gone afterwards: what
// is loaded does not need it any more.
func withRandom(ctx context.Context, m *randommodel.Model, use func(path string) error) (err error) {
	dir, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "random.gguf")
	if err := interrupted(m.WriteFile(ctx, path)); err != nil {
		return err
	}
	return use(path)
}
