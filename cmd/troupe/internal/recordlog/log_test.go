package recordlog_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/recordlog"
)

func TestLinesAreAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o600))
	l, err := recordlog.Open(path, recordlog.Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				l.Add([]byte("a line of some length\n"))
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old\n"+strings.Repeat("a line of some length\n", 8000), string(text))
	_, err = recordlog.Open(filepath.Join(path, "x"), recordlog.Options{})
	require.ErrorContains(t, err, "--request-log")
}

// slowFile takes a write only when it is let.
type slowFile struct {
	bytes.Buffer
	begun, let chan struct{}
	err        error
}

func (f *slowFile) Write(p []byte) (int, error) {
	f.begun <- struct{}{}
	<-f.let
	if f.err != nil {
		return 0, f.err
	}
	return f.Buffer.Write(p)
}

func (f *slowFile) Close() error { return nil }

func TestTickWrites(t *testing.T) {
	f := &slowFile{begun: make(chan struct{}, 9), let: make(chan struct{}, 9)}
	f.let <- struct{}{}
	ticks := make(chan time.Time)
	l := recordlog.New(f, recordlog.Options{Ticks: ticks})
	l.Add([]byte("x\n"))
	ticks <- time.Time{}
	<-f.begun
	require.NoError(t, l.Close())
	require.Equal(t, "x\n", f.String())
}

func TestSlowFileHoldsNobodyUp(t *testing.T) {
	f := &slowFile{begun: make(chan struct{}, 9), let: make(chan struct{}, 9)}
	warnings := make(chan string, 9)
	l := recordlog.New(f, recordlog.Options{Warn: func(s string) { warnings <- s }, Ticks: make(chan time.Time)})
	line := bytes.Repeat([]byte("x"), 1<<20)
	l.Add(line)
	<-f.begun // and there it stays
	for range 20 {
		l.Add(line)
	}
	f.let <- struct{}{}
	f.let <- struct{}{}
	require.NoError(t, l.Close())
	require.Contains(t, <-warnings, "lost 12 records")
	require.Equal(t, 9<<20, f.Len())
}

func TestWriteErrorsAreTold(t *testing.T) {
	f := &slowFile{begun: make(chan struct{}, 9), let: make(chan struct{}, 9), err: errors.New("disk full")}
	f.let <- struct{}{}
	warnings := make(chan string, 9)
	l := recordlog.New(f, recordlog.Options{Warn: func(s string) { warnings <- s }, Ticks: make(chan time.Time)})
	l.Add([]byte("x\n"))
	require.NoError(t, l.Close())
	require.Contains(t, <-warnings, "disk full")
}
