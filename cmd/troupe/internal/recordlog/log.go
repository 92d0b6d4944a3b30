package recordlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	flushEvery = time.Second
	flushBytes = 64 << 10 // pending lines that are written without waiting for the tick
	maxPending = 8 << 20  // beyond, lines are dropped: the disk is too slow, or full
)

// Options configure a [Log].
type Options struct {
	Warn  func(message string) // told of lines that were lost; called from the writer's goroutine
	Ticks <-chan time.Time     // when to write; nil = each second
}

// Log is a file that lines are appended to by a goroutine of its own.
type Log struct {
	o    Options
	file io.WriteCloser
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending []byte
	spare   []byte // the buffer that is not pending
	dropped int
}

// Open opens a file for appending, and creates it readable by its owner only.
func Open(path string, o Options) (*Log, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--request-log %s: %w", path, errors.Unwrap(err))
	}
	return New(f, o), nil
}

// New returns a log on an open file, which it owns.
func New(f io.WriteCloser, o Options) *Log {
	l := &Log{o: o, file: f, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Add appends a line, its end included. It copies the line and never waits for
// the file.
func (l *Log) Add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending)+len(line) > maxPending {
		l.dropped++
		return
	}
	l.pending = append(l.pending, line...)
	if len(l.pending) >= flushBytes {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Close writes what is pending and closes the file. Call it once.
func (l *Log) Close() error {
	close(l.quit)
	<-l.done
	return l.file.Close()
}

func (l *Log) run() {
	defer close(l.done)
	ticks := l.o.Ticks
	if ticks == nil {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ticks:
		case <-l.wake:
		case <-l.quit:
			l.flush()
			return
		}
		l.flush()
	}
}

// flush writes what is pending; what the file does not take is lost, and told.
func (l *Log) flush() {
	l.mu.Lock()
	lines, dropped := l.pending, l.dropped
	l.pending, l.spare, l.dropped = l.spare[:0], lines, 0
	l.mu.Unlock()
	if dropped > 0 {
		l.warn(fmt.Sprintf("The request log lost %d records: its file is too slow", dropped))
	}
	if len(lines) == 0 {
		return
	}
	if _, err := l.file.Write(lines); err != nil {
		l.warn(fmt.Sprintf("The request log lost records: %v", err))
	}
}

func (l *Log) warn(message string) {
	if l.o.Warn != nil {
		l.o.Warn(message)
	}
}
