package ptxsim

import "math"

// full are all lanes of a warp.
const full = ^uint32(0)

// reg is a register in all lanes of a warp. Values of less than 64 bits lie in the
// low ones; the others are zero, or the sign where the declared width has them.
type reg [32]uint64

// Functions of all lanes. Those that the inner loops of kernels live on are loops
// of their own; lane1, lane2 and lane3 make the others of a function of one lane.
type (
	fn1 func(d, a *reg)
	fn2 func(d, a, b *reg)
	fn3 func(d, a, b, c *reg)
)

func lane1(f func(uint64) uint64) fn1 {
	return func(d, a *reg) {
		for l := range d {
			d[l] = f(a[l])
		}
	}
}

func lane2(f func(x, y uint64) uint64) fn2 {
	return func(d, a, b *reg) {
		for l := range d {
			d[l] = f(a[l], b[l])
		}
	}
}

func lane3(f func(x, y, z uint64) uint64) fn3 {
	return func(d, a, b, c *reg) {
		for l := range d {
			d[l] = f(a[l], b[l], c[l])
		}
	}
}

// blend copies the lanes of m.
func blend(d, t *reg, m uint32) {
	for l := range d {
		if m>>l&1 != 0 {
			d[l] = t[l]
		}
	}
}

// op1, op2 and op3 bind a function to registers. A warp without lanes that
// sit the instruction out writes the target at once.
func op1(f fn1, d, a int) op {
	return func(w *warp, m uint32) {
		if m == w.alive {
			f(&w.r[d], &w.r[a])
			return
		}
		f(&w.tmp, &w.r[a])
		blend(&w.r[d], &w.tmp, m)
	}
}

func op2(f fn2, d, a, b int) op {
	return func(w *warp, m uint32) {
		if m == w.alive {
			f(&w.r[d], &w.r[a], &w.r[b])
			return
		}
		f(&w.tmp, &w.r[a], &w.r[b])
		blend(&w.r[d], &w.tmp, m)
	}
}

func op3(f fn3, d, a, b, c int) op {
	return func(w *warp, m uint32) {
		if m == w.alive {
			f(&w.r[d], &w.r[a], &w.r[b], &w.r[c])
			return
		}
		f(&w.tmp, &w.r[a], &w.r[b], &w.r[c])
		blend(&w.r[d], &w.tmp, m)
	}
}

// signed widens the low bits to an int64, by their sign.
func signed(v uint64, width int) int64 { return int64(v<<(64-width)) >> (64 - width) }

// low keeps the low bits.
func low(v uint64, width int) uint64 { return v << (64 - width) >> (64 - width) }

// f32 and bits32 tell a register's value as a float and back.
func f32(v uint64) float32    { return math.Float32frombits(uint32(v)) }
func bits32(f float32) uint64 { return uint64(math.Float32bits(f)) }

func bit(b bool) uint32 {
	var v uint32
	if b {
		v = 1
	}
	return v
}
