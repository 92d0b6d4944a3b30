package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-llm/troupe/infer"
)

// Snapshot is a model in the cache.
type Snapshot struct {
	Path     string // the folder, or the GGUF file
	Commit   string // 40 hex digits
	NumFiles int    // how many files had to be fetched; 0 = all was there
}

// pull is one call of [Hub.Pull].
type pull struct {
	h       *Hub
	name    Name
	cache   cache
	commit  string
	fetched int // files
}

// Pull returns where a model is in the cache, after fetching what is not there.
// Offline, and where the hub does not answer, the cache has to do; so it does for
// a commit that is there, which cannot change. When ctx ends, what has come stays
// and is resumed by the next call.
func (h *Hub) Pull(ctx context.Context, n Name) (Snapshot, error) {
	c := h.cacheOf(n.Repo)
	inCache, missing := c.find(n)
	if h.o.Offline {
		if missing != nil {
			return Snapshot{}, invalid("%s cannot be fetched, because HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, and %v", n, plainMessage(missing))
		}
		return inCache, nil
	}
	if missing == nil && commitOK.MatchString(n.revision()) {
		return inCache, nil
	}
	asked := *h
	if missing == nil {
		asked.o.Attempts = min(h.o.Attempts, 2) // there is something to serve: do not insist
	}
	l, err := asked.list(ctx, n)
	if err != nil {
		if missing == nil && isTemporary(err) && ctx.Err() == nil {
			h.o.Progress.Note(fmt.Sprintf("%v; taking commit %.12s of %s from the cache", err, inCache.Commit, n.Repo))
			return inCache, nil
		}
		return Snapshot{}, h.explain(n, err)
	}
	p := &pull{h: h, name: n, cache: c, commit: l.commit}
	path, err := p.run(ctx, l.files)
	if err != nil {
		return Snapshot{}, h.explain(n, err)
	}
	return Snapshot{Path: path, Commit: l.commit, NumFiles: p.fetched}, nil
}

// run fetches what is chosen of files, and returns where it is.
func (p *pull) run(ctx context.Context, files []File) (string, error) {
	chosen, err := choose(p.name, files)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(p.cache.dir, "blobs"), 0o755); err != nil {
		return "", p.h.diskError(err, 0)
	}
	if err := p.fetch(ctx, chosen.small); err != nil {
		return "", err
	}
	dir := p.cache.snapshot(p.commit)
	if p.h.o.Check != nil && chosen.gguf == "" {
		if err := p.h.o.Check(dir); err != nil {
			return "", err
		}
	}
	if chosen.index {
		index, err := readSmall(filepath.Join(dir, indexFile), maxIndexBytes)
		if err != nil {
			return "", err
		}
		if chosen.weights, err = shards(index, files); err != nil {
			return "", err
		}
	}
	if err := p.fetch(ctx, chosen.weights); err != nil {
		return "", err
	}
	// Last, so that a pull that is cut short leaves the revision to what it was.
	if err := p.cache.setRef(p.name.revision(), p.commit); err != nil {
		return "", p.h.diskError(err, 0)
	}
	return filepath.Join(dir, filepath.FromSlash(chosen.gguf)), nil
}

// fetch brings files into the snapshot, if there is room for them.
func (p *pull) fetch(ctx context.Context, files []File) error {
	var need int64
	for i := range files {
		if err := p.h.describe(ctx, p.name.Repo, p.commit, &files[i]); err != nil {
			return err
		}
		need += p.cache.missing(files[i])
	}
	if free, ok := p.h.o.FreeBytes(p.cache.dir); ok && need > free {
		return &infer.Error{Code: infer.CodeUnavailable, Param: "model",
			Message: fmt.Sprintf("%s does not fit on the disk: %s are to be fetched, %s are free in %s", p.name, byteSize(need), byteSize(free), p.h.o.CacheDir)}
	}
	for _, f := range files {
		if !p.cache.has(f) {
			if err := p.fetchBlob(ctx, f); err != nil {
				return err
			}
		}
		if err := p.cache.link(p.commit, f); err != nil {
			return p.h.diskError(err, 0)
		}
	}
	return nil
}

// plainMessage takes the code out of an error of ours.
func plainMessage(err error) error {
	var coded *infer.Error
	if errors.As(err, &coded) {
		return fmt.Errorf("the cache has not all of it: %s", coded.Message)
	}
	return err
}
