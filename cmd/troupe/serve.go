package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

// serve runs `troupe serve` until a signal, ctx's end, or a failure.
func (m *Main) serve(ctx context.Context) error {
	cfg := &m.cli.Serve
	for _, w := range cfg.Warnings {
		fmt.Fprintf(m.Stderr, "Warning: %s\n", w)
	}
	start := time.Now()
	starting := func(sig os.Signal) {
		fmt.Fprintf(m.Stderr, "Received %s while starting: nothing was running, and nothing will\n", sig)
		m.Exit(exitOK)
	}
	fetched := m.onSignal(starting)
	err := m.fetchModels(ctx, cfg)
	fetched()
	if err != nil {
		return err
	}
	// A wrong folder and a port in use are better known before the weights are
	// read than after.
	folder, err := openFolder(cfg.Local(cfg.ModelPath()))
	if err != nil {
		return err
	}
	if _, err := contextLength(cfg, folder); err != nil {
		return err
	}
	if err := probe(cfg); err != nil {
		return err
	}
	m.tuneMemory()
	loaded := m.onSignal(starting)
	s, err := newServer(ctx, cfg, m)
	loaded()
	if err != nil {
		return err
	}
	m.closers = append(m.closers, s.Close)
	ln, err := listen(cfg)
	if err != nil {
		return err
	}
	// What loading needed and serving does not goes back to the system.
	debug.FreeOSMemory()
	ended := s.start(ln)
	s.describe()
	s.log.Info(fmt.Sprintf("Serving %s at %s (ready after %.1f s)", strings.Join(s.engine.Model().ServedNames, ", "), urlOf(cfg, ln), time.Since(start).Seconds()))
	select {
	case err := <-ended:
		return fmt.Errorf("the listener failed: %w", err)
	case sig := <-m.Signals:
		s.log.Info(fmt.Sprintf("Received %s: %s; again to end at once", sig, farewell(cfg)))
	case <-ctx.Done():
	}
	drained := m.exitOnSignal()
	s.drain(seconds(cfg.HTTP.ShutdownTimeout))
	drained()
	return <-ended
}

// farewell says what becomes of running requests.
func farewell(cfg *config.Serve) string {
	if cfg.HTTP.ShutdownTimeout == 0 {
		return "cancelling running requests (--shutdown-timeout 0)"
	}
	return fmt.Sprintf("finishing running requests, for up to %v", seconds(cfg.HTTP.ShutdownTimeout))
}

// exitOnSignal ends the process on a signal until stop is called: a second signal
// while draining means now.
func (m *Main) exitOnSignal() (stop func()) {
	return m.onSignal(func(sig os.Signal) {
		code := exitFailure
		if n, ok := sig.(syscall.Signal); ok {
			code = 128 + int(n)
		}
		m.Exit(code)
	})
}

// onSignal has one signal handled aside, where the program is busy, until stop is
// called.
func (m *Main) onSignal(handle func(os.Signal)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case sig := <-m.Signals:
			handle(sig)
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// gcPercent is GOGC's default here: the heap is small beside the weights, which
// are outside of it, and garbage comes with every streamed token.
const gcPercent = 200

// tuneMemory sets the collector unless the environment does.
func (m *Main) tuneMemory() {
	if m.Getenv("GOGC") == "" && m.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// probe finds an address that cannot be listened on. Connections are accepted
// only once the model is loaded, so that a probe of the port means readiness.
func probe(cfg *config.Serve) error {
	if cfg.HTTP.UDS == "" && cfg.HTTP.Port == 0 {
		return nil
	}
	ln, err := listen(cfg)
	if err != nil {
		return err
	}
	return ln.Close()
}

func listen(cfg *config.Serve) (net.Listener, error) {
	network, address := cfg.Address()
	if network == "unix" {
		removeStaleSocket(address)
	}
	ln, err := net.Listen(network, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && network == "unix":
		return nil, fmt.Errorf("--uds %s is in use by another process", address)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d is in use by another process: choose another --port, or 0 for a free one", cfg.HTTP.Port)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return ln, nil
}

// removeStaleSocket removes a socket that no process listens on any more, as a
// killed server leaves it.
func removeStaleSocket(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // listening says what is wrong if that failed
	}
}

// urlOf returns where clients on this machine find the server.
func urlOf(cfg *config.Serve, ln net.Listener) string {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return "unix socket " + ln.Addr().String()
	}
	host := cfg.HTTP.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if cfg.HTTP.SSLCertfile != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}
