package hub

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's hash of small files
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// incomplete is the suffix of a file that is the beginning of another.
const incomplete = ".incomplete"

// lockPoll is how often a lock that somebody else has is tried again.
const lockPoll = 200 * time.Millisecond

// newSum returns the hash of a file's content: of git's objects it covers a header.
func newSum(f File) hash.Hash {
	if len(f.Hash) == 2*sha256.Size {
		return sha256.New()
	}
	s := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(s, "blob %d\x00", f.Size)
	return s
}

// fetchBlob brings a file into the cache, unless somebody else does meanwhile.
func (p *pull) fetchBlob(ctx context.Context, f File) error {
	if err := os.MkdirAll(p.cache.locks, 0o755); err != nil {
		return p.h.diskError(err, f.Size)
	}
	unlock, err := p.lock(ctx, f)
	if err != nil {
		return err
	}
	defer unlock()
	if p.cache.has(f) {
		return nil
	}
	out, err := os.OpenFile(p.cache.blob(f.Hash)+incomplete, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return p.h.diskError(err, f.Size)
	}
	err = p.complete(ctx, f, out)
	if err == nil {
		err = out.Sync() // a blob's name vouches for its content, after a power cut too
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	p.fetched++
	return os.Rename(out.Name(), p.cache.blob(f.Hash))
}

// lock waits for the lock of a file.
func (p *pull) lock(ctx context.Context, f File) (unlock func(), err error) {
	path := filepath.Join(p.cache.locks, f.Hash+".lock")
	for noted := false; ; noted = true {
		unlock, locked, err := tryLock(path)
		if locked || err != nil {
			return unlock, err
		}
		if !noted {
			p.h.o.Progress.Note(f.Path + " is being fetched by another process; waiting for it")
		}
		if err := p.h.o.Sleep(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

// complete brings the rest of a file and checks the whole. If that fails, it
// begins once more: what was there may have been wrong.
func (p *pull) complete(ctx context.Context, f File, out *os.File) error {
	t := &transfer{h: p.h, url: p.h.fileURL(p.name.Repo, p.commit, f.Path), file: f, out: out, sum: newSum(f)}
	if err := t.resume(ctx); err != nil {
		return err
	}
	p.h.o.Progress.Begin(f.Path, t.offset, f.Size)
	defer p.h.o.Progress.End()
	for try := range 2 {
		if err := t.run(ctx); err != nil {
			return err
		}
		sum := hex.EncodeToString(t.sum.Sum(nil))
		if sum == f.Hash {
			return nil
		}
		if err := t.restart(); err != nil {
			return err
		}
		if try == 1 {
			return &infer.Error{Code: infer.CodeUnavailable, Param: "model",
				Message: fmt.Sprintf("%s: what came has the hash %s; the hub says %s: it is not the same file", f.Path, sum, f.Hash)}
		}
		p.h.o.Progress.Note(fmt.Sprintf("%s came with the wrong hash: fetching it once more", f.Path))
	}
	return nil
}

// resume hashes what is there of the file.
func (t *transfer) resume(ctx context.Context) error {
	info, err := t.out.Stat()
	if err != nil {
		return err
	}
	if info.Size() > t.file.Size {
		return t.out.Truncate(0)
	}
	t.offset, err = io.Copy(t.sum, untilEnd{ctx, io.NewSectionReader(t.out, 0, info.Size())})
	return err
}

// untilEnd reads until a context ends.
type untilEnd struct {
	ctx context.Context
	r   io.Reader
}

func (u untilEnd) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// diskError words an error of the disk; need is how many bytes were to come.
func (h *Hub) diskError(err error, need int64) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return &infer.Error{Code: infer.CodeUnavailable, Param: "model", Message: fmt.Sprintf("the cache cannot be written: %v", err), Err: err}
	}
	free := ""
	if n, ok := h.o.FreeBytes(h.o.CacheDir); ok {
		free = fmt.Sprintf(", %s are free", byteSize(n))
	}
	return &infer.Error{Code: infer.CodeUnavailable, Param: "model", Err: err,
		Message: fmt.Sprintf("the disk is full: %s more are needed in %s%s; what has come is kept and resumed", byteSize(need), h.o.CacheDir, free)}
}

// byteSize writes a size with a binary unit.
func byteSize(n int64) string {
	const units = "KMGTPE"
	v, unit := float64(n), -1
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	if unit < 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}
