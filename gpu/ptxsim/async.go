package ptxsim

import "math/bits"

// copying is an asynchronous copy to shared memory that nobody has waited for. Until
// then its target is pending, and only the wait moves the bytes: whoever waits for
// too little reads what is not there yet.
type copying struct {
	lane, group int
	to          int // offset in shared memory
	from        *span
	at          int // offset in from
	size, n     int // bytes of the target, and those of the source; zeros fill the rest
}

// copyAsync is cp.async and what waits for it.
func copyAsync(d *decoder) op {
	if len(d.mods) < 3 || d.mods[1] != "async" {
		return nil
	}
	switch d.mods[2] {
	case "commit_group":
		d.need(0)
		return func(w *warp, m uint32) {
			for ; m != 0; m &= m - 1 {
				w.groups[bits.TrailingZeros32(m)&31]++
			}
		}
	case "wait_all":
		d.need(0)
		return func(w *warp, m uint32) { w.finishCopies(m, nil) }
	case "wait_group":
		d.need(1)
		n := d.src(0)
		return func(w *warp, m uint32) { w.finishCopies(m, &w.r[n]) }
	}
	return startCopy(d)
}

func startCopy(d *decoder) op {
	if len(d.mods) != 5 || d.mods[3] != "shared" || d.mods[4] != "global" || (d.mods[2] != "ca" && d.mods[2] != "cg") {
		return nil
	}
	if len(d.args) != 3 && len(d.args) != 4 {
		d.reject("%d operands where 3 or 4 are expected", len(d.args))
	}
	size, ok := literal(d.args[2].text)
	if !ok || (size != 16 && (d.mods[2] == "cg" || size != 4 && size != 8)) {
		return nil
	}
	to, toOffset := d.address(0)
	from, fromOffset := d.address(1)
	count := d.src(len(d.args) - 1) // without a fourth operand, it is the size
	return func(w *warp, m uint32) {
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			c := copying{lane: l, group: w.groups[l], size: int(size), n: int(min(low(w.r[count][l], 32), size))}
			var dst *span
			dst, c.to = w.locate(shared, w.r[to][l]+toOffset, c.size, l)
			w.writes(dst, c.to, c.size, l)
			fill(dst.state[c.to:c.to+c.size], pending)
			if c.n > 0 {
				c.from, c.at = w.locate(global, w.r[from][l]+fromOffset, c.size, l)
				w.readsSome(c.from, c.at, c.n, l)
			}
			w.copies = append(w.copies, c)
		}
	}
}

// readsSome is reads for any number of bytes.
func (w *warp) readsSome(s *span, o, n, lane int) {
	for n > 0 {
		part := 16
		for part > n || o%part != 0 {
			part /= 2
		}
		w.reads(s, o, part, lane)
		o, n = o+part, n-part
	}
}

// finishCopies moves the bytes of all groups but the latest n; of all copies if n is
// nil, also those that are in no group yet.
func (w *warp) finishCopies(m uint32, n *reg) {
	left := w.copies[:0]
	for _, c := range w.copies {
		if m>>c.lane&1 == 0 || (n != nil && c.group+int(uint32(n[c.lane])) >= w.groups[c.lane]) {
			left = append(left, c)
			continue
		}
		s := w.b.shared
		dst := s.data[c.to : c.to+c.size]
		clear(dst)
		if c.n > 0 {
			copy(dst[:c.n], c.from.data[c.at:])
		}
		fill(s.state[c.to:c.to+c.size], written)
		w.noteWrite(s, c.to, c.size, c.lane, 0) // others need a barrier from here on
	}
	w.copies = left
}
