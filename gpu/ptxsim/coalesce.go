package ptxsim

import "encoding/binary"

// Most accesses are of all lanes, either to consecutive addresses or to one. Those
// are checked at once here. Whatever is not plainly right goes the way of single
// lanes (access.go), which finds out what is wrong.

// run is n bytes for each lane, one behind the other, in one chunk.
type run struct {
	s     *span
	o     int
	cells []cell // n/4 for each lane
}

// consecutive tells whether the lanes' addresses are n bytes apart, n a multiple of 4.
func (w *warp) consecutive(sp space, a *reg, offset uint64, n int) (run, bool) {
	at := a[0]
	for l := range a {
		if a[l] != at+uint64(l*n) {
			return run{}, false
		}
	}
	s, o, ok := w.within(sp, at+offset, n, 32*n)
	if !ok || o%chunkBytes+32*n > chunkBytes {
		return run{}, false
	}
	c := s.chunks[o/chunkBytes]
	if c == nil || c.fine {
		return run{}, false
	}
	i := o % chunkBytes / 4
	return run{s, o, c.cells[i : i+8*n]}, true
}

// within is locate without complaints: total bytes at an address aligned to n.
func (w *warp) within(sp space, a uint64, n, total int) (*span, int, bool) {
	s := w.b.shared
	if sp == generic && a-sharedWindow < maxShared {
		a, sp = a-sharedWindow, shared
	}
	if sp != shared {
		if s = w.b.l.mem.find(a); s == nil || s.freed {
			return nil, 0, false
		}
		s.first = w.b.l.first
		a -= s.base
	}
	ok := a%uint64(n) == 0 && a <= uint64(s.size) && s.size-int(a) >= total
	return s, int(a), ok
}

// written8 tells whether all bytes are written, a multiple of 8 of them.
func written8(state []byte) bool {
	for ; len(state) >= 8; state = state[8:] {
		if binary.LittleEndian.Uint64(state) != 0x0202020202020202 {
			return false
		}
	}
	return true
}

// readRun checks and remembers the reads of a run, and tells whether they are right.
func (w *warp) readRun(r run, n int) bool {
	if !written8(r.s.state[r.o : r.o+32*n]) {
		return false
	}
	first, per := r.s.first<<segShift, n/4
	me := w.seg << segShift
	for l := range 32 {
		cells := r.cells[l*per : l*per+per]
		for i := range cells {
			c := &cells[i]
			if c.w >= first && c.w&^flags != me && w.clash(r.s, c.w, l) {
				return false
			}
			if c.r < first {
				c.r = me
			} else if c.r != me {
				c.r = w.reader(r.s, c.r, me)
			}
		}
		me++
	}
	return true
}

// writeRun is readRun for writes.
func (w *warp) writeRun(r run, n int) bool {
	if !written8(r.s.state[r.o : r.o+32*n]) {
		return false
	}
	first, per := r.s.first<<segShift, n/4
	me := w.seg << segShift
	for l := range 32 {
		cells := r.cells[l*per : l*per+per]
		for i := range cells {
			c := &cells[i]
			if c.w >= first && c.w&^flags != me && w.clash(r.s, c.w, l) ||
				c.r >= first && c.r != me && w.clashWithReaders(r.s, c.r, l) {
				return false
			}
			c.w = me
		}
		me++
	}
	return true
}

// broadcast checks and remembers a read of n bytes at one address by all lanes, and
// tells whether there is one and it is right.
func (w *warp) broadcast(sp space, a *reg, offset uint64, n int) (*span, int, bool) {
	at := a[0]
	for l := range a {
		if a[l] != at {
			return nil, 0, false
		}
	}
	s, o, ok := w.within(sp, at+offset, n, n)
	if !ok || !allWritten(s.state[o:], n) {
		return nil, 0, false
	}
	first, me := s.first<<segShift, w.seg<<segShift
	cells := s.cellsAt(o, n)
	for i := range cells {
		c := &cells[i]
		if c.w >= first && (c.w>>segShift == w.seg || w.clash(s, c.w, 0)) {
			return nil, 0, false
		}
		r := w.reader(s, c.r, me)
		c.r = r&^flags | max(r&flags, manyLanes)
	}
	return s, o, true
}

// readable returns where lane 0 reads and how far apart the lanes do, if all read
// together and rightly; else nothing.
func (w *warp) readable(sp space, a *reg, offset uint64, n int, m uint32) (at run, each int) {
	if m != full || n%4 != 0 {
		return run{}, 0
	}
	if a[0] == a[1] {
		if s, o, ok := w.broadcast(sp, a, offset, n); ok {
			return run{s: s, o: o}, 0
		}
	} else if r, ok := w.consecutive(sp, a, offset, n); ok && w.readRun(r, n) {
		return r, n
	}
	return run{}, 0
}
