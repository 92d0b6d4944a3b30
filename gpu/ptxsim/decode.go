package ptxsim

import "strings"

// decoders make an op of an instruction, by the first part of its mnemonic. One
// that returns nil does not know the form.
var decoders map[string]func(d *decoder) op

func init() { // not where it is declared, since decode refers to it
	decoders = map[string]func(d *decoder) op{
		"add": arithmetic, "sub": arithmetic, "mul": multiply, "mad": multiplyAdd, "fma": fused,
		"div": arithmetic, "rem": arithmetic, "min": arithmetic, "max": arithmetic,
		"neg": single, "abs": single, "not": logic, "popc": single, "clz": single, "brev": single,
		"and": logic, "or": logic, "xor": logic, "shl": shift, "shr": shift, "bfe": field, "prmt": permute, "shf": funnel,
		"mov": move, "cvt": convert, "cvta": convertAddress, "selp": selects, "setp": compare,
		"ex2": approximation, "lg2": approximation, "rcp": approximation, "rsqrt": approximation, "sqrt": approximation,
		"sin": approximation, "cos": approximation, "tanh": approximation,
		"ld": load, "st": store, "atom": atomicAccess, "red": atomicAccess, "cp": copyAsync, "ldmatrix": loadMatrix, "mma": multiplyMatrices,
		"shfl": shuffle, "vote": vote, "bar": barrier, "barrier": barrier, "membar": fence, "fence": fence,
		"bra": branch, "ret": leave, "exit": leave,
	}
}

// arithmetic is add, sub, div, rem, min and max.
func arithmetic(d *decoder) op {
	d.need(3)
	typ := d.typ()
	var f fn2
	switch typ {
	case "f32":
		d.only("rn", "full", "approx") // division: ours is exact
		f = floats2[d.mods[0]]
	case "f16", "bf16", "f16x2", "bf16x2", "f64", "pred":
	default:
		d.only()
		f = integer2(d.mods[0], typ)
	}
	if f == nil {
		return nil
	}
	return op2(f, d.dst(0), d.src(1), d.src(2))
}

// isInteger tells whether a type is one that integer2 takes.
func isInteger(typ string) bool {
	return typ != "pred" && typ[0] != 'f' && !strings.HasPrefix(typ, "bf") && typ != "f16x2"
}

func multiply(d *decoder) op {
	d.need(3)
	typ := d.typ()
	f := floats2["mul"]
	switch {
	case typ == "f32":
		d.only("rn")
	case !isInteger(typ):
		return nil
	default:
		d.only("lo", "hi", "wide")
		if len(d.mods) != 3 {
			return nil
		}
		if f = integer2("mul"+d.mods[1], typ); f == nil && d.has("wide") && typeBits[typ] == 16 {
			f = widening(typ == "s16")
		}
	}
	if f == nil {
		return nil
	}
	return op2(f, d.dst(0), d.src(1), d.src(2))
}

func multiplyAdd(d *decoder) op {
	d.need(4)
	d.only("lo", "wide")
	var f fn3
	switch typ := d.typ(); {
	case d.has("lo") && (typ == "s32" || typ == "u32" || typ == "b32"):
		f = mad32
	case d.has("lo") && (typ == "s64" || typ == "u64"):
		f = lane3(func(x, y, z uint64) uint64 { return x*y + z })
	case d.has("lo") && (typ == "s16" || typ == "u16"):
		f = lane3(func(x, y, z uint64) uint64 { return low(x*y+z, 16) })
	case d.has("wide") && (typ == "s32" || typ == "u32"):
		f = madWide(typ == "s32")
	default:
		return nil
	}
	return op3(f, d.dst(0), d.src(1), d.src(2), d.src(3))
}

func fused(d *decoder) op {
	d.need(4)
	d.only("rn")
	if d.typ() != "f32" {
		return nil
	}
	return op3(fma32, d.dst(0), d.src(1), d.src(2), d.src(3))
}

// single is neg, abs, popc, clz and brev.
func single(d *decoder) op {
	d.need(2)
	d.only()
	typ := d.typ()
	var f fn1
	switch {
	case typ == "f32" && d.mods[0] == "neg":
		f = lane1(func(x uint64) uint64 { return x ^ 1<<31 })
	case typ == "f32" && d.mods[0] == "abs":
		f = lane1(func(x uint64) uint64 { return x & 0x7fffffff })
	case isInteger(typ):
		f = integer1(d.mods[0], typeBits[typ])
	}
	if f == nil {
		return nil
	}
	return op1(f, d.dst(0), d.src(1))
}

// logic is and, or, xor and not, of registers or of predicates.
func logic(d *decoder) op {
	d.only()
	name, typ := d.mods[0], d.typ()
	if typ == "pred" {
		return logicOfPredicates(d)
	}
	if typ[0] != 'b' || !isInteger(typ) {
		return nil
	}
	if name == "not" {
		d.need(2)
		return op1(integer1(name, typeBits[typ]), d.dst(0), d.src(1))
	}
	d.need(3)
	return op2(integer2(name, typ), d.dst(0), d.src(1), d.src(2))
}

func logicOfPredicates(d *decoder) op {
	d.need(map[bool]int{true: 2, false: 3}[d.mods[0] == "not"])
	to, a := d.predicate(d.args[0].text), d.predicate(d.args[1].text)
	b := d.predicate(d.args[len(d.args)-1].text)
	var f func(a, b uint32) uint32
	switch d.mods[0] {
	case "and":
		f = func(a, b uint32) uint32 { return a & b }
	case "or":
		f = func(a, b uint32) uint32 { return a | b }
	case "xor":
		f = func(a, b uint32) uint32 { return a ^ b }
	default:
		f = func(a, _ uint32) uint32 { return ^a }
	}
	return func(w *warp, m uint32) { w.setPredicate(to, f(w.p[a], w.p[b]), m) }
}

func shift(d *decoder) op {
	d.need(3)
	d.only()
	if typ := d.typ(); isInteger(typ) {
		return op2(integer2(d.mods[0], typ), d.dst(0), d.src(1), d.src(2))
	}
	return nil
}

func field(d *decoder) op {
	d.need(4)
	d.only()
	typ := d.typ()
	if !isInteger(typ) || typ[0] == 'b' {
		return nil
	}
	return op3(extract(typ[0] == 's', typeBits[typ]), d.dst(0), d.src(1), d.src(2), d.src(3))
}

func permute(d *decoder) op {
	d.need(4)
	d.only()
	if d.typ() != "b32" {
		return nil
	}
	return op3(lane3(select4), d.dst(0), d.src(1), d.src(2), d.src(3))
}

// funnel is shf: 32 bits out of the 64 of two registers.
func funnel(d *decoder) op {
	d.need(4)
	d.only("l", "r", "wrap", "clamp")
	if len(d.mods) != 4 || d.typ() != "b32" {
		return nil
	}
	left, wrap := d.mods[1] == "l", d.mods[2] == "wrap"
	return op3(lane3(func(x, y, n uint64) uint64 {
		both := low(x, 32) | y<<32
		if n = low(n, 32); wrap {
			n &= 31
		}
		n = min(n, 32)
		if left {
			return both << n >> 32
		}
		return low(both>>n, 32)
	}), d.dst(0), d.src(1), d.src(2), d.src(3))
}

func approximation(d *decoder) op {
	d.need(2)
	d.only("approx", "rn", "ftz")
	name := d.mods[0]
	exact := name == "rcp" || name == "sqrt"
	if d.typ() != "f32" || (d.has("rn") && !exact) {
		return nil
	}
	return op1(float1(approximate[name], d.has("ftz")), d.dst(0), d.src(1))
}

func selects(d *decoder) op {
	d.need(4)
	d.only()
	w := typeBits[d.typ()]
	to, a, b, p := d.dst(0), d.src(1), d.src(2), d.predicate(d.args[3].text)
	return func(wp *warp, m uint32) {
		x, y, t, c := &wp.r[a], &wp.r[b], &wp.r[to], wp.p[p]
		for l := range t {
			if m>>l&1 != 0 {
				if v := y[l]; c>>l&1 == 0 {
					t[l] = low(v, w)
				} else {
					t[l] = low(x[l], w)
				}
			}
		}
	}
}
