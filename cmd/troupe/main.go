// Command troupe serves language models with the OpenAI API (`troupe serve`),
// fetches them (`troupe pull`), talks to them in the terminal (`troupe chat`), watches a server's requests
// (`troupe top`) and measures servers and engines (`troupe bench`)
// and says what the machine can run (`troupe doctor`).
//
// This package reads flags and signals and joins the others: it is the only one
// that knows both the actors and the model, both the server and the engine.
//
// Exit status: 0 when all went well, 1 when something failed or settings
// contradict each other, 2 for mistakes in the command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/infer"
)

func main() {
	m := NewMain()
	os.Exit(m.Execute(context.Background(), os.Args[1:]))
}

// Main is the program: what it reads and writes, and what it was asked to do.
type Main struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Signals        <-chan os.Signal // SIGINT and SIGTERM
	Exit           func(code int)   // ends the process at once

	cli     *config.CLI
	command config.Command
	closers []func() error // run by Close, last first
}

// NewMain returns the program on the process's own streams and signals.
func NewMain() *Main {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return &Main{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Signals: signals, Exit: os.Exit,
	}
}

// Exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// Execute parses, runs and closes, reports an error in one line on standard
// error, behind the usage if no command was named, and returns the exit status.
func (m *Main) Execute(ctx context.Context, args []string) int {
	err := m.ParseFlags(args)
	if err == nil {
		err = m.Run(ctx)
	}
	err = errors.Join(err, m.Close())
	if err == nil {
		return exitOK
	}
	var usage *config.UsageError
	isUsage := errors.As(err, &usage)
	if isUsage && usage.Help != "" {
		fmt.Fprintf(m.Stderr, "%s\n", usage.Help)
	}
	fmt.Fprintf(m.Stderr, "Error: %s\n", errorLine(err))
	if isUsage {
		return exitUsage
	}
	return exitFailure
}

// ParseFlags reads the command line and checks it; nothing is opened yet.
func (m *Main) ParseFlags(args []string) (err error) {
	m.cli, m.command, err = config.Parse(args, config.Options{Getenv: m.Getenv, Help: m.Stdout})
	if err != nil {
		return err
	}
	switch m.command {
	case config.CommandServe:
		return m.cli.Serve.Check()
	case config.CommandPull:
		return m.cli.Pull.Check()
	case config.CommandChat:
		return m.cli.Chat.Check()
	case config.CommandTop:
		return m.cli.Top.Check()
	case config.CommandBenchServe:
		return m.cli.Bench.Serve.Check()
	case config.CommandBenchEngine:
		return m.cli.Bench.Engine.Check()
	case config.CommandBenchModel:
		return m.cli.Bench.Model.Check()
	case config.CommandDoctor:
		return m.cli.Doctor.Check()
	}
	return nil
}

// Run does what the command line asks for, until it is done or ctx ends.
func (m *Main) Run(ctx context.Context) error {
	switch m.command {
	case config.CommandServe:
		return m.serve(ctx)
	case config.CommandPull:
		return m.pull(ctx)
	case config.CommandChat:
		return m.chat(ctx)
	case config.CommandTop:
		return m.top(ctx)
	case config.CommandBenchServe:
		return m.benchServe(ctx)
	case config.CommandBenchEngine:
		return m.benchEngine(ctx)
	case config.CommandBenchModel:
		return m.benchModel(ctx)
	case config.CommandDoctor:
		return m.doctor(ctx)
	case config.CommandVersion:
		_, err := fmt.Fprintln(m.Stdout, versionLine())
		return err
	}
	return nil // help has been written
}

// Close frees what Run opened, in reverse order.
func (m *Main) Close() error {
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	m.closers = nil
	return errors.Join(errs...)
}

// errorLine words an error for people in one line. An *infer.Error says what
// matters in its message; its code is for HTTP.
func errorLine(err error) string {
	text := err.Error()
	var coded *infer.Error
	if errors.As(err, &coded) && coded.Code != infer.CodeInternal {
		text = coded.Message
	}
	return strings.Join(strings.Fields(text), " ")
}
