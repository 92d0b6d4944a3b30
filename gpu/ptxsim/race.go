package ptxsim

import "fmt"

// Races are found by what each word of memory remembers: who wrote it last and who
// read it. Who is a segment, the part of a warp's life between two barriers, and a
// lane. Two accesses of which one writes are a race, unless the same lane makes
// both or a barrier lies between: of the block for two of its warps, of the warp
// (bar.warp.sync) for two of its lanes. Nothing orders two blocks of a launch.

const (
	chunkBytes = 4096
	laneBits   = 5
	segShift   = laneBits + 2  // a tag is segment, two bits of flags, lane
	maxSegment = 1<<(32-7) - 2 // then numbers start again
	flags      = 3 << laneBits // of a tag:
	atomically = 1 << laneBits // of a writer
	manyLanes  = 1 << laneBits // of a reader: other lanes of the segment read it too
	manyWarps  = 2 << laneBits // and other warps since the barrier
	manyBlocks = 3 << laneBits // and other blocks
)

// cell is what a word, or a byte in a fine chunk, remembers: tags, 0 for nobody.
type cell struct{ w, r uint32 }

// chunk has the cells of chunkBytes. It is fine from the first access on that is
// not of whole words.
type chunk struct {
	fine  bool
	cells []cell
}

// segment says whose a tag is.
type segment struct{ block, warp, epoch int32 }

// cellsAt returns the cells of n bytes, which do not cross a chunk.
func (s *span) cellsAt(o, n int) []cell {
	c := s.chunks[o/chunkBytes]
	if c == nil {
		c = &chunk{cells: make([]cell, chunkBytes/4)}
		s.chunks[o/chunkBytes] = c
	}
	if n < 4 && !c.fine {
		c.refine()
	}
	i := o % chunkBytes
	if c.fine {
		return c.cells[i : i+n]
	}
	return c.cells[i/4 : (i+n)/4]
}

func (c *chunk) refine() {
	words := c.cells
	c.fine, c.cells = true, make([]cell, chunkBytes)
	for i := range c.cells {
		c.cells[i] = words[i/4]
	}
}

// newSegment begins a segment of a warp.
func (w *warp) newSegment() {
	b := w.b
	w.seg = b.l.nextSegment()
	b.l.segments = append(b.l.segments, segment{block: int32(b.number), warp: int32(w.id), epoch: int32(b.epoch)})
}

// clash tells whether an access by the lane may be a race with the one of a tag.
func (w *warp) clash(s *span, tag uint32, lane int) bool {
	seg := tag >> segShift
	if seg < s.first {
		return false
	}
	if seg == w.seg {
		return int(tag&31) != lane
	}
	other := w.b.l.segments[seg-w.b.l.first]
	if int(other.block) != w.b.number {
		return true
	}
	return int(other.epoch) == w.b.epoch && int(other.warp) != w.id
}

// noteRead remembers a read of n bytes, or fails.
func (w *warp) noteRead(s *span, o, n, lane int) {
	me := w.seg<<segShift | uint32(lane)
	cells := s.cellsAt(o, n)
	for i := range cells {
		c := &cells[i]
		if c.w>>segShift >= s.first && c.w&^flags != me && w.clash(s, c.w, lane) {
			w.race(s, o, lane, "read", "written", c.w)
		}
		if c.r != me {
			c.r = w.reader(s, c.r, me)
		}
	}
}

// reader joins a reader to those that a cell knows.
func (w *warp) reader(s *span, old, me uint32) uint32 {
	seg := old >> segShift
	switch {
	case seg < s.first:
		return me
	case seg == w.seg:
		if old&^flags != me {
			return me | max(old&flags, manyLanes)
		}
		return old
	case old&flags == manyBlocks:
		return me | manyBlocks
	}
	other := w.b.l.segments[seg-w.b.l.first]
	switch {
	case int(other.block) != w.b.number:
		return me | manyBlocks
	case int(other.epoch) != w.b.epoch:
		return me
	case int(other.warp) != w.id || old&flags == manyWarps:
		return me | manyWarps
	}
	return me
}

// noteWrite remembers a write of n bytes, or fails. Atomic ones do not race with
// each other.
func (w *warp) noteWrite(s *span, o, n, lane int, atomic uint32) {
	me := w.seg<<segShift | uint32(lane)
	cells := s.cellsAt(o, n)
	for i := range cells {
		c := &cells[i]
		if c.w>>segShift >= s.first && c.w&^flags != me && c.w&atomic == 0 && w.clash(s, c.w, lane) {
			w.race(s, o, lane, "write", "written", c.w)
		}
		if c.r != me && c.r>>segShift >= s.first && w.clashWithReaders(s, c.r, lane) {
			w.race(s, o, lane, "write", "read", c.r)
		}
		c.w = me | atomic
	}
}

// clashWithReaders is clash with all readers that a tag stands for.
func (w *warp) clashWithReaders(s *span, tag uint32, lane int) bool {
	switch tag & flags {
	case manyBlocks:
		return true
	case manyWarps:
		other := w.b.l.segments[tag>>segShift-w.b.l.first]
		return int(other.block) != w.b.number || int(other.epoch) == w.b.epoch
	case manyLanes:
		if tag>>segShift == w.seg {
			return true
		}
	}
	return w.clash(s, tag, lane)
}

// race reports an access that nothing orders with an earlier one.
func (w *warp) race(s *span, o, lane int, now, before string, tag uint32) {
	other := w.b.l.segments[tag>>segShift-w.b.l.first]
	thread := int(other.warp)*32 + int(tag&31)
	if int(other.block) != w.b.number {
		w.fail(RaceOfBlocks, lane, "%s of %v at offset %d, which thread %d of block %v has %s in the same launch",
			now, s, o, thread, w.b.l.coordinates(int(other.block)), before)
	}
	more := ""
	if before == "read" && tag&flags != 0 {
		more = " (and others)"
	}
	w.fail(RaceInBlock, lane, "%s of %v at offset %d, which thread %d%s has %s, with no barrier between",
		now, s, o, thread, more, before)
}

// fail ends the launch with a report.
func (w *warp) fail(kind Kind, lane int, format string, a ...any) {
	in := &w.b.l.k.code[w.at]
	panic(&Fault{Kind: kind, Kernel: w.b.l.k.name, Line: in.line, Inst: in.text(), Block: w.b.at,
		Thread: w.id*32 + lane, Lane: lane, Detail: fmt.Sprintf(format, a...)})
}
