package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// Options say what is watched and where it is shown.
type Options struct {
	Client   *client.Client
	In       io.Reader // keys; on a terminal in raw mode
	Out      io.Writer
	Cluster  bool                       // the nodes are shown, too
	Terminal bool                       // live; else the list is written once
	Size     func() (width, height int) // of the terminal
	Ticks    <-chan time.Time           // when to ask the server
}

// pollTime bounds one question to the server.
const pollTime = 3 * time.Second

const plainWidth = 160 // of the list where there is no terminal

// Run shows the requests until q, ctx's end, or a refusal by the server. A
// server that does not answer is asked again.
func Run(ctx context.Context, o Options) error {
	s := &screen{title: "troupe top  " + o.Client.BaseURL}
	if err := o.look(ctx, s); err != nil {
		return explain(err)
	}
	if !o.Terminal {
		_, err := io.WriteString(o.Out, strings.Join(s.lines(plainWidth, 0), "\n")+"\n")
		return err
	}
	return o.live(ctx, s)
}

// The alternate screen without a cursor, and back.
const (
	enter = "\x1b[?1049h\x1b[?25l"
	leave = "\x1b[?25h\x1b[?1049l"
)

func (o *Options) live(ctx context.Context, s *screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := readKeys(ctx, o.In)
	if _, err := io.WriteString(o.Out, enter); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(o.Out, leave) }()
	for {
		if err := o.draw(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.Ticks:
			s.message = ""
		case k, ok := <-keys:
			if !ok || k == keyQuit {
				return nil
			}
			if !o.press(ctx, s, k) {
				continue
			}
		}
		err := o.look(ctx, s)
		var refused *client.StatusError
		switch {
		case errors.As(err, &refused):
			return explain(err)
		case err != nil:
			s.message = err.Error()
		}
	}
}

// press reports whether the list may have changed.
func (o *Options) press(ctx context.Context, s *screen, k key) bool {
	switch k {
	case keyUp:
		s.move(-1)
	case keyDown:
		s.move(1)
	case keyCancel:
		if s.selected == "" {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, pollTime)
		defer cancel()
		s.message = "cancelled " + s.selected
		if err := o.Client.CancelRequest(ctx, s.selected); err != nil {
			s.message = "not cancelled: " + err.Error()
		}
		return true
	}
	return false
}

// look asks the server for what the screen shows.
func (o *Options) look(ctx context.Context, s *screen) error {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	requests, err := o.Client.Requests(ctx)
	if err == nil && o.Cluster {
		s.nodes, err = o.Client.Cluster(ctx)
	}
	if err == nil {
		s.show(requests)
	}
	return err
}

// draw writes over the screen in one go, so that nothing flickers.
func (o *Options) draw(s *screen) error {
	width, height := o.Size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range s.lines(width, max(height, 4)) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(o.Out, b.String())
	return err
}

// explain says what is missing where the server's status alone would not.
func explain(err error) error {
	var status *client.StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch status.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the server wants an administrator's key: give it with --api-key (%w)", err)
	case http.StatusNotFound:
		return fmt.Errorf("the server shows its requests to nobody: start it with --admin-api-key (%w)", err)
	}
	return err
}
