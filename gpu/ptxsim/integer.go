package ptxsim

import (
	"math/bits"
	"strings"
)

// integers2 are functions of two integers, by mnemonic and width.
var integers2 = map[string]fn2{
	"add32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l]) + uint32(b[l]))
		}
	},
	"add64": func(d, a, b *reg) {
		for l := range d {
			d[l] = a[l] + b[l]
		}
	},
	"sub32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l]) - uint32(b[l]))
		}
	},
	"mullo32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l]) * uint32(b[l]))
		}
	},
	"mullo64": func(d, a, b *reg) {
		for l := range d {
			d[l] = a[l] * b[l]
		}
	},
	"mulwideu32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l])) * uint64(uint32(b[l]))
		}
	},
	"mulwides32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(int64(int32(a[l])) * int64(int32(b[l])))
		}
	},
	"and32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l] & b[l]))
		}
	},
	"or32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l] | b[l]))
		}
	},
	"or64": func(d, a, b *reg) {
		for l := range d {
			d[l] = a[l] | b[l]
		}
	},
	"shl32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l]) << min(uint32(b[l]), 63))
		}
	},
	"shl64": func(d, a, b *reg) {
		for l := range d {
			d[l] = a[l] << min(uint32(b[l]), 64)
		}
	},
	"shru32": func(d, a, b *reg) {
		for l := range d {
			d[l] = uint64(uint32(a[l]) >> min(uint32(b[l]), 63))
		}
	},
}

// integer2 returns an operation on two integers of a type; nil if there is none.
func integer2(name, typ string) fn2 {
	w := typeBits[typ]
	sign := typ[:1]
	width := strings.TrimLeft(typ, "bsu")
	for _, key := range []string{name + width, name + sign + width} {
		if f := integers2[key]; f != nil {
			return f
		}
	}
	f := slowInteger2(name, sign == "s", w)
	if f == nil {
		return nil
	}
	return lane2(func(x, y uint64) uint64 { return low(f(x, y), w) })
}

// slowInteger2 returns a function of one lane. Only the low bits of what it gives
// and of what it is given count.
func slowInteger2(name string, sign bool, w int) func(x, y uint64) uint64 {
	switch name {
	case "add":
		return func(x, y uint64) uint64 { return x + y }
	case "sub":
		return func(x, y uint64) uint64 { return x - y }
	case "mullo":
		return func(x, y uint64) uint64 { return x * y }
	case "mulhi":
		return mulHigh(sign, w)
	case "and":
		return func(x, y uint64) uint64 { return x & y }
	case "or":
		return func(x, y uint64) uint64 { return x | y }
	case "xor":
		return func(x, y uint64) uint64 { return x ^ y }
	case "shl":
		return func(x, y uint64) uint64 { return x << min(uint32(y), 64) }
	case "shr":
		if sign {
			return func(x, y uint64) uint64 { return uint64(signed(x, w) >> min(uint32(y), 63)) }
		}
		return func(x, y uint64) uint64 { return low(x, w) >> min(uint32(y), 64) }
	case "min", "max":
		return extreme(name == "max", sign, w)
	case "div", "rem":
		return divide(name == "div", sign, w)
	}
	return nil
}

func mulHigh(sign bool, w int) func(x, y uint64) uint64 {
	if w == 64 {
		return func(x, y uint64) uint64 {
			hi, _ := bits.Mul64(x, y)
			if sign {
				hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
			}
			return hi
		}
	}
	if sign {
		return func(x, y uint64) uint64 { return uint64(signed(x, w) * signed(y, w) >> w) }
	}
	return func(x, y uint64) uint64 { return low(x, w) * low(y, w) >> w }
}

func extreme(greatest, sign bool, w int) func(x, y uint64) uint64 {
	return func(x, y uint64) uint64 {
		less := low(x, w) < low(y, w)
		if sign {
			less = signed(x, w) < signed(y, w)
		}
		if less == greatest {
			return y
		}
		return x
	}
}

// divide gives all ones for a division by zero, which PTX leaves open.
func divide(quotient, sign bool, w int) func(x, y uint64) uint64 {
	return func(x, y uint64) uint64 {
		if low(y, w) == 0 {
			return ^uint64(0)
		}
		if sign {
			a, b := signed(x, w), signed(y, w)
			if quotient {
				return uint64(a / b)
			}
			return uint64(a % b)
		}
		a, b := low(x, w), low(y, w)
		if quotient {
			return a / b
		}
		return a % b
	}
}

// widening returns mul.wide of 16 bits.
func widening(sign bool) fn2 {
	return lane2(func(x, y uint64) uint64 {
		if sign {
			return uint64(uint32(int32(int16(x)) * int32(int16(y))))
		}
		return uint64(uint16(x)) * uint64(uint16(y))
	})
}

var mad32 fn3 = func(d, a, b, c *reg) {
	for l := range d {
		d[l] = uint64(uint32(a[l])*uint32(b[l]) + uint32(c[l]))
	}
}

// madWide returns mad.wide of 32 bits.
func madWide(sign bool) fn3 {
	return lane3(func(x, y, z uint64) uint64 {
		if sign {
			return uint64(int64(int32(x))*int64(int32(y))) + z
		}
		return uint64(uint32(x))*uint64(uint32(y)) + z
	})
}

// extract is bfe: length bits from a position on, by their sign.
func extract(sign bool, w int) fn3 {
	return lane3(func(x, pos, length uint64) uint64 {
		pos, length = pos&255, length&255
		if length == 0 {
			return 0
		}
		v := uint64(signed(x, w))
		if !sign {
			v = low(x, w)
		}
		v = uint64(int64(v) >> min(pos, 63))
		if !sign && pos > 63 {
			v = 0
		}
		if length >= 64 {
			return low(v, w)
		}
		if sign {
			return low(uint64(signed(v, int(length))), w)
		}
		return low(low(v, int(length)), w)
	})
}

// select4 is prmt in its general form: four bytes of eight, or their signs.
func select4(x, y, sel uint64) uint64 {
	both := x&0xffffffff | y<<32
	var out uint64
	for i := range 4 {
		s := sel >> (4 * i) & 15
		b := both >> (8 * (s & 7)) & 255
		if s&8 != 0 {
			b = b >> 7 * 255
		}
		out |= b << (8 * i)
	}
	return out
}

// integers1 are functions of one integer of a width.
func integer1(name string, w int) fn1 {
	switch name {
	case "neg":
		return lane1(func(x uint64) uint64 { return low(-x, w) })
	case "not":
		return lane1(func(x uint64) uint64 { return low(^x, w) })
	case "abs":
		return lane1(func(x uint64) uint64 { return low(uint64(max(signed(x, w), -signed(x, w))), w) })
	case "popc":
		return lane1(func(x uint64) uint64 { return uint64(bits.OnesCount64(low(x, w))) })
	case "clz":
		return lane1(func(x uint64) uint64 { return uint64(bits.LeadingZeros64(low(x, w)) - (64 - w)) })
	case "brev":
		return lane1(func(x uint64) uint64 { return bits.Reverse64(x) >> (64 - w) })
	}
	return nil
}
