package http

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

const (
	// writeSize is where a write ends although more is pending: large enough that
	// the system call costs little, small enough to be kept for the next one.
	writeSize = 16 << 10
	// writeBuffer holds the largest usual write with its chunk's frame, so that it
	// goes out in one system call.
	writeBuffer = writeSize + writeSize/2
	// A write deadline is moved when this share of it has passed, not at every flush.
	deadlineSlack = 8
)

// buffers are what streams write with; a stream takes one for its life.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, writeSize+writeSize/4)) }}

var errClientGone = errors.New("the client has closed the connection")

// events is the body of a streamed answer. The goroutine that owns the
// connection pulls it: it waits for the request's events, writes all that are
// pending as one chunk, and sees at once when a write fails. No other goroutine
// and no pipe stands between the stream and the socket.
type events struct {
	server   *Server
	ctx      *fasthttp.RequestCtx
	call     *call
	exchange *exchange
	stream   infer.Stream
	writer   openai.StreamWriter
	held     *held // nil = the writer keeps nothing that grows

	pending   []infer.Event // drained and not written yet: pending[written:]
	written   int
	buf       []byte
	pooled    *[]byte // where buf came from
	unread    []byte  // rest of buf, for Read
	numBytes  int
	deadline  time.Time // the connection's write deadline
	keepAlive *time.Timer
	lastWrite time.Time
	started   bool
	ended     bool // nothing follows
	closed    bool
}

func (s *Server) newEvents(ctx *fasthttp.RequestCtx, c *call, writer openai.StreamWriter, stream infer.Stream) *events {
	e := &events{server: s, ctx: ctx, call: c, exchange: exchangeOf(ctx), stream: stream, writer: writer, lastWrite: time.Now(),
		pooled: buffers.Get().(*[]byte)}
	e.buf = (*e.pooled)[:0]
	if s.opts.SSEKeepAlive > 0 {
		e.keepAlive = time.NewTimer(s.opts.SSEKeepAlive)
	}
	return e
}

// SupportsBodyWriteTo tells fasthttp to use WriteTo.
func (e *events) SupportsBodyWriteTo() bool { return true }

// WriteTo implements io.WriterTo: each Write is one HTTP chunk, flushed.
func (e *events) WriteTo(w io.Writer) (written int64, err error) {
	for !e.ended {
		chunk, err := e.next()
		if err != nil {
			return written, err
		}
		if len(chunk) == 0 {
			continue
		}
		if err := e.moveDeadline(); err != nil {
			return written, e.abandon(err)
		}
		n, err := w.Write(chunk)
		written += int64(n)
		e.numBytes += n
		if err != nil {
			return written, e.abandon(err)
		}
	}
	return written, nil
}

// Read implements io.Reader for writers that do not know WriteTo.
func (e *events) Read(p []byte) (int, error) {
	for len(e.unread) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		chunk, err := e.next()
		if err != nil {
			return 0, err
		}
		e.unread = chunk
	}
	n := copy(p, e.unread)
	e.unread = e.unread[n:]
	e.numBytes += n
	return n, nil
}

// next waits and returns what is to be written, possibly nothing. A panic on
// the way ends this stream alone, with an error event.
func (e *events) next() (chunk []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			e.server.logPanic(e.exchange, r)
			e.call.cancel(infer.CancelInternal)
			e.ended, e.exchange.streamError = true, infer.CodeInternal
			chunk = e.writer.AppendBroken(nil, infer.Internal(errPanic))
		}
	}()
	if !e.started {
		e.started = true
		return e.writer.AppendStart(e.buf[:0]), nil
	}
	if e.written < len(e.pending) {
		return e.write(), nil
	}
	var tick <-chan time.Time
	if e.keepAlive != nil {
		tick = e.keepAlive.C
	}
	select {
	case <-e.stream.Ready():
		e.pending, e.written = e.stream.Drain(e.pending[:0]), 0
		return e.write(), nil
	case <-tick:
		return e.signOfLife(), nil
	case <-e.call.news:
		if e.call.hasGone() {
			return nil, errClientGone
		}
		return append(e.buf[:0], openai.KeepAlive...), nil // a client that has gone answers with a reset
	}
}

// write renders pending events, up to about writeSize bytes.
func (e *events) write() []byte {
	if cap(e.buf) > 2*writeSize { // one event was very large
		e.buf = *e.pooled
	}
	e.buf = e.buf[:0]
	for e.written < len(e.pending) && len(e.buf) < writeSize && !e.ended {
		event := &e.pending[e.written]
		e.written++
		if event.Final == nil {
			e.delta(&event.Delta)
			continue
		}
		e.ended = true
		event.Final.StampWritten(infer.Now())
		e.buf = e.writer.AppendFinal(e.buf, event.Final)
		if err := event.Final.Err; err != nil { // the generator has logged it
			e.exchange.streamError = err.Code
		}
	}
	return e.buf
}

// delta renders a delta, if what the writer keeps has room for it.
func (e *events) delta(d *infer.Delta) {
	if e.held != nil {
		if err := e.held.addDelta(d); err != nil {
			e.call.cancel(infer.CancelTooLarge)
			f := &infer.Final{FinishReason: infer.FinishError, Err: infer.AsError(err)}
			e.call.meter.told = f.Err
			e.ended, e.exchange.streamError = true, f.Err.Code
			e.buf = e.writer.AppendFinal(e.buf, f)
			return
		}
	}
	e.buf = e.writer.AppendDelta(e.buf, d)
}

// signOfLife returns a comment if nothing has been written for a whole interval.
func (e *events) signOfLife() []byte {
	interval := e.server.opts.SSEKeepAlive
	if quiet := time.Since(e.lastWrite); quiet < interval {
		e.keepAlive.Reset(interval - quiet)
		return nil
	}
	e.keepAlive.Reset(interval)
	return append(e.buf[:0], openai.KeepAlive...)
}

// moveDeadline gives the next write its time.
func (e *events) moveDeadline() error {
	e.lastWrite = time.Now()
	timeout := e.server.opts.WriteTimeout
	if e.server.isHasty.Load() {
		e.deadline, timeout = time.Time{}, min(timeout, hastyWriteTime)
	}
	if e.deadline.Sub(e.lastWrite) > timeout-timeout/deadlineSlack {
		return nil
	}
	e.deadline = e.lastWrite.Add(timeout)
	return e.ctx.SetWriteDeadline(e.deadline)
}

// abandon cancels the request after a failed write: too slow, or gone.
func (e *events) abandon(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.call.cancel(infer.CancelSlowClient)
	} else {
		e.call.cancel(infer.CancelClientGone)
	}
	return err
}

// Close ends the call; a request whose end was not written is cancelled.
// fasthttp calls it when the body is over, however it ended.
func (e *events) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	buffers.Put(e.pooled)
	if e.held != nil {
		e.held.release()
	}
	e.buf, e.unread = nil, nil
	if e.keepAlive != nil {
		e.keepAlive.Stop()
	}
	status := fasthttp.StatusOK
	switch {
	case e.call.meter.entry.isOver: // it knows: both must say the same
		status = e.call.meter.entry.Status
		e.stream.Drain(e.pending[:0]) // nothing comes: the buffer goes back
		e.pending = nil
	case !e.ended:
		status = metrics.StatusClientGone
		e.call.meter.status = status
	}
	if !e.ended {
		e.call.cancel(infer.CancelClientGone)
	}
	e.server.end(e.call)
	if e.exchange.streamed {
		e.server.observe(e.exchange, status, e.numBytes)
	}
	return nil
}
