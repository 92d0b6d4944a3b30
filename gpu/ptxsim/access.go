package ptxsim

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// space is where an address points.
type space uint8

const (
	generic space = iota
	global
	shared
)

// locate returns the memory of an access of n bytes, and its place there.
func (w *warp) locate(sp space, a uint64, n, lane int) (*span, int) {
	if sp == shared || (sp == generic && a-sharedWindow < maxShared) {
		if sp == generic {
			a -= sharedWindow
		}
		s := w.b.shared
		if a%uint64(n) != 0 {
			w.fail(Misaligned, lane, "%d bytes at address %#x", n, a)
		}
		if a > uint64(s.size) || s.size-int(a) < n {
			w.fail(OutOfBounds, lane, "%d bytes at offset %d of %v", n, int64(a), s)
		}
		return s, int(a)
	}
	s := w.b.l.mem.find(a)
	if s == nil {
		w.fail(OutOfBounds, lane, "%d bytes at address %#x, which is in no allocation", n, a)
	}
	s.first = w.b.l.first
	if s.freed {
		w.fail(UseAfterFree, lane, "%d bytes at offset %d of %v", n, a-s.base, s)
	}
	o := int(a - s.base)
	if a%uint64(n) != 0 {
		w.fail(Misaligned, lane, "%d bytes at address %#x", n, a)
	}
	if s.size-o < n {
		w.fail(OutOfBounds, lane, "%d bytes at offset %d of %v", n, o, s)
	}
	return s, o
}

// reads checks a read of n bytes: 1, 2, 4, 8 or 16.
func (w *warp) reads(s *span, o, n, lane int) {
	if !allWritten(s.state[o:], n) {
		for i, st := range s.state[o : o+n] {
			w.checkOwned(s, o+i, st, lane)
			if st != written {
				w.fail(Unwritten, lane, "byte %d of %d bytes at offset %d of %v", i, n, o, s)
			}
		}
	}
	w.noteRead(s, o, n, lane)
}

// writes checks a write of n bytes.
func (w *warp) writes(s *span, o, n, lane int) {
	if !allWritten(s.state[o:], n) {
		for i, st := range s.state[o : o+n] {
			w.checkOwned(s, o+i, st, lane)
			s.state[o+i] = written
		}
	}
	w.noteWrite(s, o, n, lane, 0)
}

// checkOwned fails if the byte is of nobody, or of a copy that is under way.
func (w *warp) checkOwned(s *span, o int, st byte, lane int) {
	switch {
	case st == gone:
		w.fail(UseAfterFree, lane, "offset %d of %v, whose buffer was released", o, s)
	case st == untouched && s.carved:
		w.fail(OutOfBounds, lane, "offset %d of %v, which is of no buffer", o, s)
	case st == pending:
		w.fail(Pending, lane, "offset %d of %v", o, s)
	}
}

// spaceOf reads and checks the modifiers of an access; count is the length of vectors.
func (d *decoder) spaceOf() (sp space, count int) {
	count = 1
	for _, m := range d.mods[1 : len(d.mods)-1] {
		switch m {
		case "global":
			sp = global
		case "shared":
			sp = shared
		case "v2":
			count = 2
		case "v4":
			count = 4
		case "volatile", "nc", "relaxed", "gpu", "cta", "sys", "weak", "ca", "cg", "cs", "wb":
		default:
			d.reject("modifier .%s is not supported here", m)
		}
	}
	return sp, count
}

// address returns the register and the offset of operand i.
func (d *decoder) address(i int) (reg int, offset uint64) {
	o := d.args[i]
	if !o.memory {
		d.reject("operand %d is no address", i+1)
	}
	o.memory = false
	return d.value(o), uint64(o.offset)
}

func load(d *decoder) op {
	d.need(2)
	typ := d.typ()
	size := typeBits[typ] / 8
	if size == 0 || size*8 != typeBits[typ] {
		return nil
	}
	sign := typ[0] == 's'
	if d.mods[1] == "param" {
		return loadParam(d, size, sign)
	}
	sp, count := d.spaceOf()
	to := d.vector(0, false)
	if len(to) != count || size*count > 16 {
		return nil
	}
	width := make([]int, 1)
	if sign {
		width[0] = d.register(firstOf(d.args[0])).width
	}
	base, offset := d.address(1)
	if count == 1 && !sign {
		return loadOne(sp, to[0], base, offset, size)
	}
	return func(w *warp, m uint32) {
		w.tmp = w.r[base] // a target may be the address
		at, each := w.readable(sp, &w.tmp, offset, size*count, m)
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			s, o := at.s, at.o+l*each
			if s == nil {
				s, o = w.locate(sp, w.tmp[l]+offset, size*count, l)
				w.reads(s, o, size*count, l)
			}
			for i, r := range to {
				v := get(s.data[o+i*size:], size)
				if sign {
					v = low(uint64(signed(v, 8*size)), width[0])
				}
				w.r[r][l] = v
			}
		}
	}
}

func firstOf(o operand) operand {
	if len(o.list) > 0 {
		return o.list[0]
	}
	return o
}

// loadOne is the load of one unsigned number, which is most of them.
func loadOne(sp space, to, base int, offset uint64, size int) op {
	return func(w *warp, m uint32) {
		a, t := &w.r[base], &w.r[to]
		if at, each := w.readable(sp, a, offset, size, m); at.s != nil {
			gather(t, at.s.data[at.o:], each, size)
			return
		}
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			s, o := w.locate(sp, a[l]+offset, size, l)
			w.reads(s, o, size, l)
			t[l] = get(s.data[o:], size)
		}
	}
}

// gather reads numbers that are some bytes apart into the lanes of a register.
func gather(t *reg, data []byte, each, size int) {
	if each == 4 && size == 4 {
		data = data[:128]
		for l := range t {
			t[l] = uint64(binary.LittleEndian.Uint32(data[4*l : 4*l+4]))
		}
		return
	}
	for l := range t {
		t[l] = get(data[l*each:], size)
	}
}

func loadParam(d *decoder, size int, sign bool) op {
	o := d.args[1]
	at, ok := d.k.paramAt[o.text]
	at += int(o.offset)
	if !ok || !o.memory || at < 0 || at+size > d.k.paramBytes || len(d.mods) != 3 {
		return nil
	}
	r := d.register(d.args[0])
	return func(w *warp, m uint32) {
		v := get(w.b.l.params[at:], size)
		if sign {
			v = low(uint64(signed(v, 8*size)), r.width)
		}
		t := &w.r[r.index]
		for l := range t {
			if m>>l&1 != 0 {
				t[l] = v
			}
		}
	}
}

func store(d *decoder) op {
	d.need(2)
	size := typeBits[d.typ()] / 8
	if size == 0 || strings.Contains(d.name, "param") {
		return nil
	}
	sp, count := d.spaceOf()
	from := d.vector(1, true)
	if len(from) != count || size*count > 16 {
		return nil
	}
	base, offset := d.address(0)
	return func(w *warp, m uint32) {
		a, n := &w.r[base], size*count
		var at run
		if m == full && n%4 == 0 {
			if r, ok := w.consecutive(sp, a, offset, n); ok && w.writeRun(r, n) {
				at = r
			}
		}
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			s, o := at.s, at.o+l*n
			if s == nil {
				s, o = w.locate(sp, a[l]+offset, n, l)
				w.writes(s, o, n, l)
			}
			for i, r := range from {
				put(s.data[o+i*size:], size, w.r[r][l])
			}
		}
	}
}

// atomicAccess is atom, and red, which returns nothing.
func atomicAccess(d *decoder) op {
	returns := d.mods[0] == "atom"
	first := 0
	if returns {
		first = 1
	}
	typ := d.typ()
	size := typeBits[typ] / 8
	sp, name := generic, ""
	for _, m := range d.mods[1 : len(d.mods)-1] {
		switch m {
		case "global":
			sp = global
		case "shared":
			sp = shared
		case "relaxed", "acq_rel", "gpu", "cta", "sys":
		default:
			name += m
		}
	}
	f := atomicFunction(name, typ)
	if f == nil || size < 4 {
		return nil
	}
	d.need(first + 2 + int(bit(name == "cas")))
	to := -1
	if returns {
		to = d.dst(0)
	}
	base, offset := d.address(first)
	x, y := d.src(first+1), d.src(len(d.args)-1)
	return func(w *warp, m uint32) {
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			s, o := w.locate(sp, w.r[base][l]+offset, size, l)
			if !allWritten(s.state[o:], size) {
				w.reads(s, o, size, l) // which fails
			}
			w.noteWrite(s, o, size, l, atomically)
			old := get(s.data[o:], size)
			put(s.data[o:], size, f(old, w.r[x][l], w.r[y][l]))
			if to >= 0 {
				w.r[to][l] = old
			}
		}
	}
}

// atomicFunction returns what is stored for the old value and the operands.
func atomicFunction(name, typ string) func(old, x, y uint64) uint64 {
	switch {
	case name == "exch":
		return func(_, x, _ uint64) uint64 { return x }
	case name == "cas":
		w := typeBits[typ]
		return func(old, x, y uint64) uint64 {
			if low(old, w) == low(x, w) {
				return y
			}
			return old
		}
	case name == "add" && typ == "f32":
		return func(old, x, _ uint64) uint64 { return bits32(f32(old) + f32(x)) }
	case !isInteger(typ):
		return nil
	case name == "add" || name == "and" || name == "or" || name == "xor" || name == "min" || name == "max":
		f := slowInteger2(name, typ[0] == 's', typeBits[typ])
		return func(old, x, _ uint64) uint64 { return f(old, x) }
	}
	return nil
}
