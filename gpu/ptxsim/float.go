package ptxsim

import "math"

// floats2 are functions of two f32.
var floats2 = map[string]fn2{
	"add": func(d, a, b *reg) {
		for l := range d {
			d[l] = bits32(f32(a[l]) + f32(b[l]))
		}
	},
	"sub": func(d, a, b *reg) {
		for l := range d {
			d[l] = bits32(f32(a[l]) - f32(b[l]))
		}
	},
	"mul": func(d, a, b *reg) {
		for l := range d {
			d[l] = bits32(f32(a[l]) * f32(b[l]))
		}
	},
	"div": lane2(func(x, y uint64) uint64 { return bits32(f32(x) / f32(y)) }),
	"max": lane2(func(x, y uint64) uint64 { return larger(x, y) }),
	"min": lane2(func(x, y uint64) uint64 { return larger(x^1<<31, y^1<<31) ^ 1<<31 }),
}

// larger is max.f32: of a number and a NaN the number, of two zeros the positive.
func larger(x, y uint64) uint64 {
	a, b := f32(x), f32(y)
	switch {
	case a > b || b != b:
		return x
	case a == b:
		return x & y
	}
	return y
}

var fma32 fn3 = func(d, a, b, c *reg) {
	for l := range d {
		p := float64(f32(a[l])) * float64(f32(b[l])) // exact
		s := p + float64(f32(c[l]))
		if tie := math.Float64bits(s)&0x1fffffff == 0x10000000; tie || math.Abs(s) < 0x1p-126 {
			s = toOdd(p, float64(f32(c[l])), s)
		}
		d[l] = bits32(float32(s))
	}
}

// toOdd rounds p+c, of which s is the nearest double, to odd instead: rounding that
// to a float gives what rounding the exact sum once would.
func toOdd(p, c, s float64) float64 {
	t := s - p
	rest := (p - (s - t)) + (c - t) // exact, by Knuth
	if u := math.Float64bits(s); rest != 0 && rest == rest && u&1 == 0 {
		if (rest > 0) == (s > 0) {
			return math.Float64frombits(u + 1)
		}
		return math.Float64frombits(u - 1)
	}
	return s
}

// approximate are functions of one f32 whose exact bits PTX leaves open. Ours are
// the nearest floats.
var approximate = map[string]func(float64) float64{
	"ex2":   math.Exp2,
	"lg2":   math.Log2,
	"rcp":   func(x float64) float64 { return 1 / x },
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"sqrt":  math.Sqrt,
	"sin":   math.Sin,
	"cos":   math.Cos,
	"tanh":  math.Tanh,
}

// float1 makes an operation on f32; flush replaces subnormals by zeros.
func float1(f func(float64) float64, flush bool) fn1 {
	if !flush {
		return lane1(func(x uint64) uint64 { return bits32(float32(f(float64(f32(x))))) })
	}
	return lane1(func(x uint64) uint64 { return flushed(bits32(float32(f(float64(f32(flushed(x))))))) })
}

func flushed(x uint64) uint64 {
	if x&0x7f800000 == 0 {
		return x & 0x80000000
	}
	return x
}

// narrow rounds a float to nearest, ties to even, in 16 bits.
func toBF16(f float32) uint64 {
	v := math.Float32bits(f)
	if f != f {
		return 0x7fff
	}
	return uint64(uint16((v + 0x7fff + v>>16&1) >> 16))
}

func toF16(f float32) uint64 {
	v := math.Float32bits(f)
	sign, mag := uint64(v>>16&0x8000), v&0x7fffffff
	switch {
	case mag > 0x7f800000:
		return 0x7fff
	case mag >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case mag < 0x38800000: // subnormal: in units of 2^-24
		return sign | uint64(math.RoundToEven(math.Abs(float64(f))*0x1p24))
	}
	return sign | uint64((mag-0x38000000+0xfff+mag>>13&1)>>13)
}

func fromF16(h uint64) float32 {
	sign, exp, frac := uint32(h>>15&1)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0:
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// toInt converts with saturation; NaN gives zero, as PTX says for f32.
func toInt(f float64, sign bool, w int) uint64 {
	if f != f {
		return 0
	}
	if sign {
		limit := math.Ldexp(1, w-1)
		if f >= limit {
			return low(uint64(int64(1)<<(w-1)-1), w)
		}
		return low(uint64(int64(max(f, -limit))), w)
	}
	if f >= math.Ldexp(1, w) {
		return low(^uint64(0), w)
	}
	return uint64(max(f, 0))
}
