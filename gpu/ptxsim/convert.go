package ptxsim

import "math"

// move is mov, also of two halves into one register and back.
func move(d *decoder) op {
	d.need(2)
	d.only()
	typ := d.typ()
	switch {
	case typ == "pred":
		return movePredicate(d)
	case d.args[0].list != nil:
		return split(d, typeBits[typ])
	case d.args[1].list != nil:
		return join(d, typeBits[typ])
	}
	w := typeBits[typ]
	f := fn1(func(d, a *reg) { *d = *a })
	if w < 64 {
		f = func(d, a *reg) {
			for l := range d {
				d[l] = a[l] << (64 - w) >> (64 - w)
			}
		}
	}
	return op1(f, d.dst(0), d.src(1))
}

func movePredicate(d *decoder) op {
	to := d.predicate(d.args[0].text)
	if v, ok := literal(d.args[1].text); ok {
		bits := -bit(v != 0)
		return func(w *warp, m uint32) { w.setPredicate(to, bits, m) }
	}
	from := d.predicate(d.args[1].text)
	return func(w *warp, m uint32) { w.setPredicate(to, w.p[from], m) }
}

// split writes the parts of a register to several, the low one first.
func split(d *decoder, width int) op {
	to, from := d.vector(0, false), d.src(1)
	if width%len(to) != 0 {
		return nil
	}
	part := width / len(to)
	return func(w *warp, m uint32) {
		w.tmp = w.r[from]
		for i, r := range to {
			t := &w.r[r]
			for l := range t {
				if m>>l&1 != 0 {
					t[l] = low(w.tmp[l]>>(part*i), part)
				}
			}
		}
	}
}

// join makes a register of several.
func join(d *decoder, width int) op {
	to, from := d.dst(0), d.vector(1, true)
	if len(from) == 0 || width%len(from) != 0 {
		return nil
	}
	part := width / len(from)
	return func(w *warp, m uint32) {
		clear(w.tmp[:])
		for i, r := range from {
			for l, v := range w.r[r] {
				w.tmp[l] |= low(v, part) << (part * i)
			}
		}
		blend(&w.r[to], &w.tmp, m)
	}
}

func convert(d *decoder) op {
	if len(d.mods) < 3 {
		return nil
	}
	to, from := d.mods[len(d.mods)-2], d.typ()
	if typeBits[to] == 0 {
		return nil
	}
	if to == "bf16x2" || to == "f16x2" {
		return convertPair(d, to, from)
	}
	d.need(2)
	f := conversion(d, to, from)
	if f == nil {
		return nil
	}
	return op1(f, d.dst(0), d.src(1))
}

// conversion returns the function of cvt between two types; nil if there is none.
func conversion(d *decoder, to, from string) fn1 {
	tw, fw := typeBits[to], typeBits[from]
	switch {
	case isInteger(to) && isInteger(from):
		d.only()
		return integers(to, from, d.register(d.args[0]).width)
	case to == "f32" && isInteger(from):
		d.only("rn")
		if from[0] == 's' {
			return lane1(func(x uint64) uint64 { return bits32(float32(signed(x, fw))) })
		}
		return lane1(func(x uint64) uint64 { return bits32(float32(low(x, fw))) })
	case isInteger(to) && from == "f32":
		d.only("rzi", "rni", "rmi", "rpi")
		round, sign := rounding(d), to[0] == 's'
		if round == nil {
			return nil
		}
		return lane1(func(x uint64) uint64 { return toInt(round(float64(f32(x))), sign, tw) })
	case to == "f32" && from == "f16":
		d.only()
		return lane1(func(x uint64) uint64 { return bits32(fromF16(x)) })
	case to == "f32" && from == "bf16":
		d.only()
		return lane1(func(x uint64) uint64 { return low(x, 16) << 16 })
	case from == "f32" && d.has("rn") && to == "f16":
		d.only("rn")
		return lane1(func(x uint64) uint64 { return toF16(f32(x)) })
	case from == "f32" && d.has("rn") && to == "bf16":
		d.only("rn")
		return lane1(func(x uint64) uint64 { return toBF16(f32(x)) })
	}
	return nil
}

// integers cuts or widens to the target's width, by the types' signs.
func integers(to, from string, width int) fn1 {
	tw, fw := typeBits[to], typeBits[from]
	switch {
	case from == "u32" && to == "u64":
		return func(d, a *reg) {
			for l := range d {
				d[l] = uint64(uint32(a[l]))
			}
		}
	case from == "s32" && to == "s64":
		return func(d, a *reg) {
			for l := range d {
				d[l] = uint64(int32(a[l]))
			}
		}
	}
	return lane1(func(x uint64) uint64 {
		v := low(x, fw)
		if from[0] == 's' {
			v = uint64(signed(x, fw))
		}
		if to[0] == 's' {
			return low(uint64(signed(v, tw)), width)
		}
		return low(v, tw)
	})
}

func rounding(d *decoder) func(float64) float64 {
	for mod, f := range map[string]func(float64) float64{"rzi": math.Trunc, "rni": math.RoundToEven, "rmi": math.Floor, "rpi": math.Ceil} {
		if d.has(mod) {
			return f
		}
	}
	return nil
}

// convertPair packs two floats; the first operand is the high half.
func convertPair(d *decoder, to, from string) op {
	d.need(3)
	d.only("rn")
	if from != "f32" || !d.has("rn") {
		return nil
	}
	narrow := toBF16
	if to == "f16x2" {
		narrow = toF16
	}
	return op2(func(t, hi, lo *reg) {
		for l := range t {
			t[l] = narrow(f32(hi[l]))<<16 | narrow(f32(lo[l]))
		}
	}, d.dst(0), d.src(1), d.src(2))
}

// convertAddress is cvta between the generic space and one of the others.
func convertAddress(d *decoder) op {
	d.need(2)
	d.only("to", "global", "shared")
	if typeBits[d.typ()] != 64 {
		return nil
	}
	delta := uint64(0)
	switch {
	case d.has("shared") && d.has("to"):
		delta = 1<<64 - sharedWindow
	case d.has("shared"):
		delta = sharedWindow
	}
	return op1(lane1(func(x uint64) uint64 { return x + delta }), d.dst(0), d.src(1))
}
