package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// stallWatch ends a request whose answer has stopped coming.
type stallWatch struct {
	limit  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

type stallError struct{ limit time.Duration }

func (e stallError) Error() string { return fmt.Sprintf("nothing came for %v", e.limit) }

func watchStalls(ctx context.Context, limit time.Duration) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &stallWatch{limit: limit, ctx: ctx, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(stallError{limit}) })
	return ctx, w
}

func (w *stallWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain puts the silence in place of the error that it led to.
func (w *stallWatch) explain(err error) error {
	var network *netError
	var stall stallError
	if errors.As(context.Cause(w.ctx), &stall) && errors.As(err, &network) {
		return &netError{host: network.host, err: stall}
	}
	return err
}

// reader postpones the end with every read that gives something.
func (w *stallWatch) reader(r io.Reader) io.Reader { return stallReader{w, r} }

type stallReader struct {
	w *stallWatch
	r io.Reader
}

func (r stallReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if n > 0 {
		r.w.timer.Reset(r.w.limit)
	}
	return n, err
}
