package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/chatui"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

// isTerminal reports whether a stream is one a person looks at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newClient connects to a server with up to conns connections kept open.
func newClient(url, key string, conns int) *client.Client {
	return &client.Client{
		BaseURL: url, APIKey: key,
		HTTP: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true,
		}},
	}
}

// chat runs `troupe chat`, with a server in this process unless there is a URL.
func (m *Main) chat(ctx context.Context) error {
	cfg := &m.cli.Chat
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newClient(cfg.URL, cmp.Or(cfg.APIKey, m.Getenv("OPENAI_API_KEY")), 1)
	name := cfg.Model
	if cfg.URL == "" {
		var err error
		if c, err = m.embedded(cfg.Model); err != nil {
			return err
		}
		name = ""
	}
	if name == "" {
		var err error
		if name, err = c.FirstModel(ctx); err != nil {
			return err
		}
	}
	return chatui.Run(ctx, chatui.Options{
		Client: c, Model: name, System: cfg.System, MaxTokens: cfg.MaxTokens, Temperature: cfg.Temperature, Seed: cfg.Seed,
		In: m.Stdin, Out: m.Stdout, Terminal: isTerminal(m.Stdin) && isTerminal(m.Stdout), Metrics: !cfg.NoMetrics,
		Interrupts: m.untilTerminated(ctx, cancel),
	})
}

// untilTerminated passes interrupts on and ends ctx on any other signal.
func (m *Main) untilTerminated(ctx context.Context, cancel context.CancelFunc) <-chan os.Signal {
	interrupts := make(chan os.Signal)
	go func() {
		for {
			select {
			case sig := <-m.Signals:
				if sig != os.Interrupt {
					cancel()
					return
				}
				select {
				case interrupts <- sig:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return interrupts
}

// embedded serves a model within this process on a socket that only this user
// can reach, with defaults of `troupe serve` and per-request metrics.
func (m *Main) embedded(path string) (*client.Client, error) {
	args := []string{"serve", "--enable-per-request-metrics", "--disable-uvicorn-access-log", "--max-num-seqs", "4"}
	if path != "" {
		args = append(args, "--", path)
	}
	noEnv := func(string) string { return "" }
	cli, _, err := config.Parse(args, config.Options{Getenv: noEnv})
	if err != nil {
		return nil, err
	}
	cfg := &cli.Serve
	cfg.Env.LogLevel, cfg.HTTP.UvicornLogLevel = "ERROR", "error"
	loaded := m.exitOnSignal()
	s, err := newServer(cfg, m)
	loaded()
	if err != nil {
		return nil, err
	}
	m.closers = append(m.closers, s.Close)
	dir, err := os.MkdirTemp("", "troupe-chat-")
	if err != nil {
		return nil, err
	}
	m.closers = append(m.closers, func() error { return os.RemoveAll(dir) })
	cfg.HTTP.UDS = filepath.Join(dir, "s")
	ln, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	ended := s.start(ln)
	m.closers = append(m.closers, func() error { s.drain(0); return <-ended })
	var dialer net.Dialer
	return &client.Client{
		BaseURL: "http://embedded",
		HTTP: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", cfg.HTTP.UDS)
		}}},
	}, nil
}

// benchServe runs `troupe bench serve`.
func (m *Main) benchServe(ctx context.Context) error {
	cfg := &m.cli.Bench.Serve
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	o := bench.Options{
		Client: newClient(cfg.URL, cmp.Or(cfg.APIKey, m.Getenv("OPENAI_API_KEY")), cfg.Concurrency),
		Model:  cfg.Model, Endpoint: cfg.Endpoint, NumRequests: cfg.NumRequests, Concurrency: cfg.Concurrency, Rate: cfg.Rate,
		Warmup: cfg.Warmup, Timeout: seconds(cfg.Timeout), PromptTokens: cfg.PromptTokens, OutputTokens: cfg.OutputTokens,
		IgnoreEOS: cfg.IgnoreEOS, Seed: uint64(cfg.Seed),
	}
	if o.Model == "" {
		var err error
		if o.Model, err = o.Client.FirstModel(ctx); err != nil {
			return err
		}
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := m.writeReport(report, cfg.JSON); err != nil {
		return err
	}
	if report.NumOK == 0 {
		return errors.New("no request succeeded")
	}
	return nil
}

// writeReport writes the table to standard output and JSON to a file; "-" puts
// JSON on standard output and the table on standard error.
func (m *Main) writeReport(r *bench.Report, path string) error {
	table := m.Stdout
	if path == "-" {
		table = m.Stderr
	}
	if err := r.WriteTable(table); err != nil || path == "" {
		return err
	}
	if path == "-" {
		return r.WriteJSON(m.Stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return errors.Join(r.WriteJSON(io.Writer(f)), f.Close())
}
