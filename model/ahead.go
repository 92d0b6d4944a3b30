package model

import (
	"os"
	"strconv"
	"sync"

	"github.com/troupe-llm/troupe/infer"
)

// ahead reads the tensors of one item while the item before it is repacked, so that
// the disk and the processor work at the same time, and at most two items of the file
// are in memory beside what has been made of it.
type ahead struct {
	c       *checkpoint
	running sync.WaitGroup
	err     error // of the item read last; valid after wait
	touched byte  // keeps the reads from being optimized away
}

// start begins to read an item. Every start is followed by wait.
func (a *ahead) start(it item) {
	a.running.Go(func() { a.err = a.read(it) })
}

// wait returns when the item is in memory, or cannot be.
func (a *ahead) wait() error {
	a.running.Wait()
	return a.err
}

func (a *ahead) read(it item) error {
	for _, spec := range it.parts {
		t, ok := a.c.tensors[spec.name]
		if !ok {
			continue // a tensor that is missing is refused where it is wanted
		}
		if t.shard.m.shrunk() {
			return t.shard.shorter()
		}
		err := reading(spec.name, "the file of tensor "+strconv.Quote(spec.name), func() error {
			a.touched ^= prefault(t.Data)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shorter is the error about a file that was cut.
func (s *shard) shorter() error {
	return infer.Errorf(infer.CodeInvalid, s.name, "%s became shorter while it was being loaded", s.name)
}

// drop lets go of the pages of an item that has been repacked.
func (a *ahead) drop(it item) {
	for _, spec := range it.parts {
		t := a.c.tensors[spec.name]
		t.shard.m.drop(t.Data)
	}
}

// prefault reads one byte of every page on this goroutine, where a fault can be
// recovered: a backend need not recover those of its workers.
func prefault(data []byte) (sum byte) {
	for i := 0; i < len(data); i += os.Getpagesize() {
		sum ^= data[i]
	}
	return sum
}
