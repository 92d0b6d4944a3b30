package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/hub"
	"github.com/troupe-llm/troupe/model/understudy"
)

// pull runs `troupe pull`: it writes where the model is on standard output.
func (m *Main) pull(ctx context.Context) error {
	cfg := &m.cli.Pull
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	name, _ := hub.ParseName(cfg.Name) // as Check found
	name, err := name.At(cfg.HubFlags.Revision)
	if err != nil {
		return err
	}
	got, err := m.fetch(ctx, name, hub.Options{CacheDir: cfg.HubFlags.DownloadDir})
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: what has come is kept; the same command goes on from there")
	}
	if err != nil {
		return err
	}
	if got.NumFiles == 0 {
		fmt.Fprintf(m.Stderr, "All of %s is there (commit %.12s)\n", name, got.Commit)
	}
	_, err = fmt.Fprintln(m.Stdout, got.Path)
	return err
}

// fetchModels fetches the models that the flags name by names of a hub, and notes
// where they are.
func (m *Main) fetchModels(ctx context.Context, cfg *config.Serve) error {
	wanted := []string{cfg.ModelPath(), cfg.Model.Tokenizer}
	speculation, err := cfg.Speculation()
	if err != nil {
		return err
	}
	if speculation != nil && speculation.Method == config.MethodDraftModel {
		wanted = append(wanted, speculation.Model)
	}
	cfg.Fetched = map[string]string{}
	for i, given := range wanted {
		name, ok := hubName(given)
		if !ok || cfg.Fetched[given] != "" {
			continue
		}
		o := hub.Options{CacheDir: cfg.Model.Hub.DownloadDir}
		if i == 0 {
			o.Check = isServable
			if name, err = name.At(cfg.Model.Hub.Revision); err != nil {
				return err
			}
		}
		got, err := m.fetch(ctx, name, o)
		var coded *infer.Error
		if errors.As(err, &coded) && coded.Code == infer.CodeInvalid {
			return &infer.Error{Code: coded.Code, Param: coded.Param, Err: err, Message: fmt.Sprintf("there is no folder %q here, and at the hub: %s", given, coded.Message)}
		}
		if err != nil {
			return err
		}
		cfg.Fetched[given] = got.Path
	}
	return nil
}

// hubName reads a model's name as one of a hub. Whatever is on disk comes first,
// and so do the names of the embedded models.
func hubName(given string) (hub.Name, bool) {
	if given == "" || given == understudy.Name || given == understudy.DraftName {
		return hub.Name{}, false
	}
	if _, err := os.Lstat(given); err == nil {
		return hub.Name{}, false
	}
	return hub.ParseName(given)
}

// isServable refuses a model of an architecture that is not known, before its
// weights are fetched.
func isServable(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return infer.Errorf(infer.CodeInvalid, "model", "it has no config.json")
	}
	if err == nil {
		_, err = model.ParseConfig(b)
	}
	return err
}

// fetch fetches what is not in the cache of a model. Of what, the folder, the
// check and whether nothing may be fetched are the caller's.
func (m *Main) fetch(ctx context.Context, name hub.Name, what hub.Options) (hub.Snapshot, error) {
	o, err := hub.FromEnv(m.Getenv)
	if err != nil {
		return hub.Snapshot{}, err
	}
	o.Offline = o.Offline || what.Offline
	o.CacheDir, o.Check = cmp.Or(what.CacheDir, o.CacheDir), what.Check
	o.UserAgent = "troupe/" + version()
	o.Progress = &fetchProgress{w: m.Stderr, terminal: isTerminal(m.Stderr), model: name.String()}
	h, err := hub.New(o)
	if err != nil {
		return hub.Snapshot{}, err
	}
	defer h.Close()
	return h.Pull(ctx, name)
}

// fetchProgress shows which files come in, and how far large ones are.
type fetchProgress struct {
	w        io.Writer
	terminal bool
	model    string

	file *progress // of the file that comes in
	size int64     // bytes
}

// Begin implements hub.Progress.
func (f *fetchProgress) Begin(path string, have, size int64) {
	there := ""
	if have > 0 {
		there = fmt.Sprintf(", %s are there", byteSize(have))
	}
	fmt.Fprintf(f.w, "Fetching %s: %s (%s%s)\n", f.model, path, byteSize(size), there)
	f.file, f.size = newProgress(f.w, f.terminal), size
	f.file.label = "Fetching " + path
}

// Advance implements hub.Progress.
func (f *fetchProgress) Advance(have int64) { f.file.update(have, f.size) }

// End implements hub.Progress.
func (f *fetchProgress) End() { f.file.stop() }

// Note implements hub.Progress.
func (f *fetchProgress) Note(line string) { fmt.Fprintln(f.w, line) }
