package hub

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
)

const (
	pieceBytes = 64 << 10
	// progressBytes is what must have come for failures to be counted anew.
	progressBytes = 1 << 20
)

// piece is what one read of an answer gave.
type piece struct {
	b [pieceBytes]byte
	n int
}

var pieces = sync.Pool{New: func() any { return new(piece) }}

// part is a range of the file on its way. Its pieces can all wait in the
// channel, so that ranges come in side by side while they are written in order.
type part struct {
	at, end int64 // bytes [at, end) are yet to come
	pieces  chan *piece
	err     error // why it ended early; to be read once pieces is closed
}

// transfer brings one file into an incomplete one.
type transfer struct {
	h    *Hub
	url  *url.URL
	file File

	out    *os.File
	sum    hash.Hash
	offset int64 // bytes in out and in sum

	noRanges bool // the server gives the whole file only

	mu       sync.Mutex
	location *url.URL // where redirects led to, nil = not known
	tag      string   // strong ETag of the content there
}

// errNoRanges: the server answers with the whole file where a part was asked
// for, because it knows no ranges or because the file has changed.
var errNoRanges = errors.New("the server gives no ranges of the file")

// run brings what is missing. Without ranges it begins anew, a bounded number of times.
func (t *transfer) run(ctx context.Context) error {
	for failures := 1; t.offset < t.file.Size; failures++ {
		err := t.pass(ctx)
		if !errors.Is(err, errNoRanges) {
			return err
		}
		if failures > t.h.o.Attempts {
			return fmt.Errorf("%s: the connection breaks again and again, and %w", t.url.Host, err)
		}
		t.noRanges = true
		if err := t.restart(); err != nil {
			return err
		}
	}
	return nil
}

// restart throws away what is there.
func (t *transfer) restart() error {
	t.offset = 0
	t.sum = newSum(t.file)
	t.location, t.tag = nil, ""
	t.h.o.Progress.Advance(0)
	return t.out.Truncate(0)
}

// pass fetches from offset to the end, several ranges at a time.
func (t *transfer) pass(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan *part, t.h.o.Parallel-1)
	chunk, start := t.h.o.ChunkBytes, t.offset
	if t.noRanges {
		chunk = t.file.Size
	}
	running.Go(func() {
		defer close(queue)
		for at := start; at < t.file.Size; at += chunk {
			p := &part{at: at, end: min(at+chunk, t.file.Size)}
			p.pieces = make(chan *piece, min(chunk, t.h.o.ChunkBytes)/pieceBytes+2)
			select {
			case queue <- p:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer close(p.pieces)
				p.err = t.fetch(ctx, p)
			})
		}
	})
	for p := range queue {
		for b := range p.pieces {
			err := t.write(b.b[:b.n])
			pieces.Put(b)
			if err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
	}
	return ctx.Err()
}

func (t *transfer) write(b []byte) error {
	if _, err := t.out.WriteAt(b, t.offset); err != nil {
		return t.h.diskError(err, t.file.Size-t.offset)
	}
	t.sum.Write(b)
	t.offset += int64(len(b))
	t.h.o.Progress.Advance(t.offset)
	return nil
}

// fetch fetches a part, in as many requests as it takes.
func (t *transfer) fetch(ctx context.Context, p *part) error {
	failures, mark := 0, p.at
	for p.at < p.end {
		err := t.attempt(ctx, p)
		if err == nil {
			continue
		}
		if p.at-mark >= progressBytes {
			failures, mark = 0, p.at
		}
		failures++
		if err := t.h.pause(ctx, failures, err); err != nil {
			return err
		}
	}
	return nil
}

// attempt makes one request for what is left of a part.
func (t *transfer) attempt(ctx context.Context, p *part) error {
	whole := p.at == 0 && p.end == t.file.Size
	ctx, watch := watchStalls(ctx, t.h.o.StallTimeout)
	defer watch.stop()
	resp, err := t.open(ctx, p, whole)
	if err != nil {
		return watch.explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // what came is checked by its hash
	if err := t.check(resp, p, whole); err != nil {
		return err
	}
	body := watch.reader(io.LimitReader(resp.Body, p.end-p.at))
	for p.at < p.end {
		b := pieces.Get().(*piece)
		var n int
		n, err = io.ReadFull(body, b.b[:min(pieceBytes, p.end-p.at)])
		if b.n = n; n > 0 {
			watch.timer.Stop() // the writer may be slow, or wait for another part
			select {
			case p.pieces <- b:
				p.at += int64(n) // b is the writer's now
			case <-ctx.Done():
				return watch.explain(&netError{host: resp.Request.URL.Host, err: ctx.Err()})
			}
			watch.timer.Reset(watch.limit)
		}
		if err != nil && p.at < p.end {
			return watch.explain(&netError{host: resp.Request.URL.Host, err: plain(err)})
		}
	}
	return nil
}

// open asks for a part where the file was found the last time, or at the hub.
func (t *transfer) open(ctx context.Context, p *part, whole bool) (*http.Response, error) {
	t.mu.Lock()
	from, tag := t.location, t.tag
	t.mu.Unlock()
	r := request{method: http.MethodGet, url: t.url, header: http.Header{}}
	if from != nil {
		r.url = from
	}
	if !whole {
		r.header.Set("Range", fmt.Sprintf("bytes=%d-%d", p.at, p.end-1))
		if tag != "" {
			r.header.Set("If-Range", tag)
		}
	}
	resp, err := t.h.do(ctx, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		var status *statusError
		if t.location = nil; errors.As(err, &status) && status.host != t.url.Host {
			status.mayPass = true // signed addresses expire; the hub gives another
		}
		return nil, err
	}
	if u := resp.Request.URL; !sameHost(u, t.url) || u.Path != t.url.Path {
		t.location = u
	}
	if tag := resp.Header.Get("ETag"); !strings.HasPrefix(tag, "W/") {
		t.tag = tag
	}
	return resp, nil
}

// check compares what is going to come with what was asked for.
func (t *transfer) check(resp *http.Response, p *part, whole bool) error {
	host := resp.Request.URL.Host
	switch resp.StatusCode {
	case http.StatusOK:
		if !whole {
			return errNoRanges
		}
		if n := resp.ContentLength; n >= 0 && n != t.file.Size {
			return fmt.Errorf("%s: %s has %d bytes there; the hub says %d", host, t.file.Path, n, t.file.Size)
		}
		return nil
	case http.StatusPartialContent:
		var first, last, total int64
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
		if err != nil || first != p.at || last < first || last >= p.end || total != t.file.Size {
			return fmt.Errorf("%s answers with another range of %s than it was asked for: %.80q", host, t.file.Path, resp.Header.Get("Content-Range"))
		}
		return nil
	}
	return fmt.Errorf("%s answers %d where %s was asked for", host, resp.StatusCode, t.file.Path)
}
