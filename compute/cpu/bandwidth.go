package cpu

import (
	"runtime"
	"sync"
	"time"

	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// Reader measures how fast cores read memory.
type Reader struct {
	memory  arena
	buffer  []byte
	threads int
}

// NewReader returns a reader for so many threads over a buffer of so many bytes,
// which should be far larger than the caches. Its user closes it.
func NewReader(threads int, bytes int64) (*Reader, error) {
	r := &Reader{threads: max(threads, 1)}
	var err error
	if r.buffer, err = r.memory.alloc(bytes, "a buffer to be read"); err != nil {
		return nil, err
	}
	for i := 0; i < len(r.buffer); i += 64 { // real memory, not the one page of zeros
		r.buffer[i] = byte(i)
	}
	return r, nil
}

// Read reads the buffer once, a part by each thread, and returns bytes per second.
func (r *Reader) Read() float64 {
	part := len(r.buffer) / r.threads
	var wait sync.WaitGroup
	start := time.Now()
	for i := range r.threads {
		wait.Go(func() { runtime.KeepAlive(kernels.ReadLines(r.buffer[i*part:][:part])) })
	}
	wait.Wait()
	return float64(part*r.threads) / time.Since(start).Seconds()
}

// Close frees the buffer.
func (r *Reader) Close() error { return r.memory.freeAll() }
