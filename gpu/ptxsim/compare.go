package ptxsim

// compare is setp, without a second predicate.
func compare(d *decoder) op {
	d.need(3)
	if len(d.mods) != 3 {
		return nil
	}
	to, rel, typ := d.predicate(d.args[0].text), d.mods[1], d.typ()
	var f func(a, b *reg) uint32
	switch {
	case typ == "f32":
		f = compareFloats[rel]
	case isInteger(typ) && typ[0] == 's':
		f = compareSigned(rel, typeBits[typ])
	case isInteger(typ):
		f = compareUnsigned(rel, typeBits[typ])
	}
	if f == nil {
		return nil
	}
	a, b := d.src(1), d.src(2)
	return func(w *warp, m uint32) { w.setPredicate(to, f(&w.r[a], &w.r[b]), m) }
}

// lanesWhere collects the lanes of which test holds.
func lanesWhere(test func(a, b uint64) bool) func(a, b *reg) uint32 {
	return func(a, b *reg) uint32 {
		var m uint32
		for l := range a {
			m |= bit(test(a[l], b[l])) << l
		}
		return m
	}
}

// lessSigned and equal32 decide most loops.
func lessSigned(a, b *reg) uint32 {
	var m uint32
	for l := range a {
		m |= bit(int32(a[l]) < int32(b[l])) << l
	}
	return m
}

func equal32(a, b *reg) uint32 {
	var m uint32
	for l := range a {
		m |= bit(uint32(a[l]) == uint32(b[l])) << l
	}
	return m
}

// negated turns a comparison's lanes around.
func negated(f func(a, b *reg) uint32) func(a, b *reg) uint32 {
	return func(a, b *reg) uint32 { return ^f(a, b) }
}

// swapped exchanges the operands.
func swapped(f func(a, b *reg) uint32) func(a, b *reg) uint32 {
	return func(a, b *reg) uint32 { return f(b, a) }
}

// ordered makes the six relations of less and equal.
func ordered(rel string, less, equal func(a, b *reg) uint32) func(a, b *reg) uint32 {
	switch rel {
	case "lt", "lo":
		return less
	case "ge", "hs":
		return negated(less)
	case "gt", "hi":
		return swapped(less)
	case "le", "ls":
		return negated(swapped(less))
	case "eq":
		return equal
	case "ne":
		return negated(equal)
	}
	return nil
}

func compareSigned(rel string, w int) func(a, b *reg) uint32 {
	if w == 32 {
		return ordered(rel, lessSigned, equal32)
	}
	return ordered(rel,
		lanesWhere(func(x, y uint64) bool { return signed(x, w) < signed(y, w) }),
		lanesWhere(func(x, y uint64) bool { return low(x, w) == low(y, w) }))
}

func compareUnsigned(rel string, w int) func(a, b *reg) uint32 {
	return ordered(rel,
		lanesWhere(func(x, y uint64) bool { return low(x, w) < low(y, w) }),
		lanesWhere(func(x, y uint64) bool { return low(x, w) == low(y, w) }))
}

func floats(test func(x, y float32) bool) func(a, b *reg) uint32 {
	return lanesWhere(func(x, y uint64) bool { return test(f32(x), f32(y)) })
}

// compareFloats are the relations of f32; those with u hold for NaNs too.
var compareFloats = map[string]func(a, b *reg) uint32{
	"lt":  floats(func(x, y float32) bool { return x < y }),
	"le":  floats(func(x, y float32) bool { return x <= y }),
	"gt":  floats(func(x, y float32) bool { return x > y }),
	"ge":  floats(func(x, y float32) bool { return x >= y }),
	"eq":  floats(func(x, y float32) bool { return x == y }),
	"ne":  floats(func(x, y float32) bool { return x < y || x > y }),
	"ltu": floats(func(x, y float32) bool { return !(x >= y) }),
	"leu": floats(func(x, y float32) bool { return !(x > y) }),
	"gtu": floats(func(x, y float32) bool { return !(x <= y) }),
	"geu": floats(func(x, y float32) bool { return !(x < y) }),
	"equ": floats(func(x, y float32) bool { return !(x < y || x > y) }),
	"neu": floats(func(x, y float32) bool { return x != y }),
	"num": floats(func(x, y float32) bool { return x == x && y == y }),
	"nan": floats(func(x, y float32) bool { return x != x || y != y }),
}
