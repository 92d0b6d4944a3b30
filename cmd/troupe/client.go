package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
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

// newClient connects to a server. It keeps as many idle connections as there
// were requests at once, so that a measurement does not measure dialling.
func newClient(url, key string) *client.Client {
	return &client.Client{
		BaseURL: url, APIKey: key,
		HTTP: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: math.MaxInt, DisableCompression: true,
		}},
	}
}

// untilSignal returns a context that the first signal ends.
func (m *Main) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-m.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// chat runs `troupe chat`.
func (m *Main) chat(ctx context.Context) error {
	cfg := &m.cli.Chat
	c, name, err := m.partner(ctx)
	if err != nil {
		return err
	}
	o := chatui.Options{
		Client: c, Model: name, System: cfg.System, MaxTokens: cfg.MaxTokens, Temperature: cfg.Temperature, Seed: cfg.Seed,
		In: m.Stdin, Out: m.Stdout, Err: m.Stderr, Terminal: isTerminal(m.Stdin) && isTerminal(m.Stdout), Metrics: !cfg.NoMetrics,
	}
	var cancel context.CancelFunc
	if o.Terminal {
		ctx, cancel = context.WithCancel(ctx)
		o.Interrupts = m.untilTerminated(ctx, cancel)
	} else { // there is no prompt that an interrupt could return to
		ctx, cancel = m.untilSignal(ctx)
	}
	defer cancel()
	return chatui.Run(ctx, o)
}

// partner returns whom `troupe chat` talks to, and the model's name there: the
// server of --url, or one in this process.
func (m *Main) partner(ctx context.Context) (c *client.Client, name string, err error) {
	cfg := &m.cli.Chat
	if cfg.URL == "" {
		c, err = m.embedded(ctx, cfg.Model) // a folder; the server has a name for it
	} else {
		c, name = newClient(cfg.URL, cmp.Or(cfg.APIKey, m.Getenv("OPENAI_API_KEY"))), cfg.Model
	}
	if err != nil || name != "" {
		return c, name, err
	}
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	name, err = c.FirstModel(ctx)
	return c, name, err
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
func (m *Main) embedded(ctx context.Context, path string) (*client.Client, error) {
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
	var s *server
	if err = m.fetchModels(ctx, cfg); err == nil {
		s, err = newServer(ctx, cfg, m)
	}
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
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	o := bench.Options{
		Client: newClient(cfg.URL, cmp.Or(cfg.APIKey, m.Getenv("OPENAI_API_KEY"))),
		Model:  cfg.Model, Endpoint: cfg.Endpoint, NumRequests: cfg.NumRequests, Concurrency: cfg.Concurrency, Rate: cfg.Rate,
		Warmup: cfg.Warmup, Timeout: seconds(cfg.Timeout), PromptTokens: cfg.PromptTokens, OutputTokens: cfg.OutputTokens,
		IgnoreEOS: cfg.IgnoreEOS, Seed: uint64(rand.Int32()),
	}
	if cfg.Seed != nil {
		o.Seed = uint64(*cfg.Seed)
	}
	if isTerminal(m.Stderr) {
		o.Progress = showProgress(m.Stderr, cfg.NumRequests)
		defer fmt.Fprint(m.Stderr, clearLine)
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

// clearLine takes a line of progress away.
const clearLine = "\r\x1b[K"

// showProgress returns what keeps a line on a terminal up to date: about a hundred
// times, since a measurement must not be busy with telling of itself.
func showProgress(w io.Writer, total int) func(done, failed int) {
	step := max(1, total/100)
	return func(done, failed int) {
		if done%step == 0 || done == total {
			fmt.Fprintf(w, clearLine+"%d of %d requests, %d failed", done, total, failed)
		}
	}
}

// report is what a measurement writes: a table for people, and its fields as JSON.
type report interface {
	WriteTable(w io.Writer) error
}

// writeReport writes the table to standard output and JSON to a file; "-" puts
// JSON on standard output and the table on standard error.
func (m *Main) writeReport(r report, path string) error {
	table := m.Stdout
	if path == "-" {
		table = m.Stderr
	}
	if err := r.WriteTable(table); err != nil || path == "" {
		return err
	}
	if path == "-" {
		return writeJSON(m.Stdout, r)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return errors.Join(writeJSON(f, r), f.Close())
}

// writeJSON writes a report as one indented JSON object.
func writeJSON(w io.Writer, r report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
