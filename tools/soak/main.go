package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	time    time.Duration
	server  string
	seed    uint64
	workers int
}

func main() {
	var o options
	flag.DurationVar(&o.time, "time", 10*time.Minute, "how long to make traffic")
	flag.StringVar(&o.server, "server", "", "troupe binary; if absent, one is built that requests can break")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the traffic")
	flag.IntVar(&o.workers, "workers", 24, "clients at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "troupe-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	canPoison := o.server == ""
	if o.server == "" {
		if o.server, err = build(ctx, dir); err != nil {
			return err
		}
	}
	s, err := start(o.server, filepath.Join(dir, "requests.jsonl"))
	if err != nil {
		return err
	}
	defer s.kill()
	fmt.Printf("soak: seed %d, %d clients, %s, server at %s\n", o.seed, o.workers, o.time, s.url)
	t := newTraffic(s, o.seed)
	t.canPoison = canPoison
	if err := t.rehearse(ctx); err != nil {
		return fmt.Errorf("quiet answers: %w", err)
	}
	if t.atRest, err = s.scrape(ctx); err != nil {
		return err
	}
	t.run(ctx, o.workers, o.time)
	t.client.CloseIdleConnections()
	samples, err := s.settle(context.WithoutCancel(ctx), t.atRest)
	if err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	records, err := readRecords(s.requestLog)
	if err != nil {
		return err
	}
	return balance(os.Stdout, t, samples, records)
}
