package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/top"
)

// Size of a terminal that does not say.
const (
	defaultWidth  = 120
	defaultHeight = 24
)

// top runs `troupe top`.
func (m *Main) top(ctx context.Context) (err error) {
	cfg := &m.cli.Top
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	ticker := time.NewTicker(seconds(cfg.Interval))
	defer ticker.Stop()
	o := top.Options{
		Client: newClient(cfg.URL, cmp.Or(cfg.APIKey, m.Getenv("OPENAI_API_KEY"))), In: m.Stdin, Out: m.Stdout,
		Cluster:  cfg.Cluster,
		Terminal: isTerminal(m.Stdin) && isTerminal(m.Stdout), Ticks: ticker.C,
		Size: func() (int, int) { return terminalSize(m.Stdout) },
	}
	if o.Terminal {
		fd := int(m.Stdin.(*os.File).Fd())
		state, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("the terminal does not give its keys: %w", err)
		}
		defer func() { err = errors.Join(err, term.Restore(fd, state)) }()
	}
	return top.Run(ctx, o)
}

func terminalSize(stream any) (width, height int) {
	if f, ok := stream.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return defaultWidth, defaultHeight
}
