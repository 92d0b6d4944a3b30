package grammar

import (
	"math/big"
	"strings"
)

// The digits that a number may have: enough for everything that encoding/json
// writes of a float64, and an end for a model that can't find one.
const (
	intDigits  = 21
	fracDigits = 24
)

var (
	digit    = bytesOf('0', '9')
	nonZero  = bytesOf('1', '9')
	exponent = alt(lit("e"), lit("E"))
	minus    = maybe(lit("-"))
)

func digits(lo, hi int) *expr { return repeat(digit, lo, hi) }

func fraction(most int) *expr {
	if most == 0 {
		return empty
	}
	return maybe(cat(lit("."), digits(1, most)))
}

// wholeDigits matches 0 or digits without a leading zero.
func wholeDigits(most int) *expr { return alt(lit("0"), cat(nonZero, digits(0, most-1))) }

// anyNumber matches numbers that a float64 can hold: a great exponent only
// after a single digit.
func anyNumber() *expr {
	sign := maybe(alt(lit("+"), lit("-")))
	upTo307 := alt(digits(1, 2), cat(bytesOf('1', '2'), digit, digit), cat(lit("30"), bytesOf('0', '7')))
	return cat(minus, alt(
		cat(wholeDigits(intDigits), fraction(fracDigits), maybe(cat(exponent, alt(
			cat(lit("-"), digits(1, 3)),
			cat(maybe(lit("+")), digits(1, 2)),
		)))),
		cat(digit, fraction(fracDigits), exponent, sign, upTo307),
	))
}

// intRange matches the integers from lo to hi.
func intRange(lo, hi *big.Int) *expr { return intRangeOf(lo, hi, sameLength) }

// intRangeOf matches the integers from lo to hi whose digits match what digits
// returns for two strings of the same length; nil if it returns that.
func intRangeOf(lo, hi *big.Int, digits func(lo, hi string) *expr) *expr {
	one := big.NewInt(1)
	if lo.Cmp(hi) > 0 {
		return never
	}
	alts := []*expr{never}
	if lo.Sign() < 0 {
		least := one
		if hi.Sign() < 0 {
			least = new(big.Int).Neg(hi)
		}
		below := magnitudes(least, new(big.Int).Neg(lo), digits)
		if below == nil {
			return nil
		}
		alts = append(alts, join(lit("-"), below))
	}
	if hi.Sign() >= 0 {
		least := new(big.Int)
		if lo.Sign() > 0 {
			least = lo
		}
		above := magnitudes(least, hi, digits)
		if above == nil {
			return nil
		}
		alts = append(alts, above)
	}
	return alt(alts...)
}

// magnitudes is intRangeOf for lo >= 0.
func magnitudes(lo, hi *big.Int, digits func(lo, hi string) *expr) *expr {
	a, b := lo.String(), hi.String()
	var alts []*expr
	for n := len(a); n <= len(b); n++ {
		least, most := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(a) {
			least = a
		}
		if n == len(b) {
			most = b
		}
		e := digits(least, most)
		if e == nil {
			return nil
		}
		alts = append(alts, e)
	}
	return alt(alts...)
}

// sameLength matches the digit strings from lo to hi, which are as long.
func sameLength(lo, hi string) *expr {
	if lo == "" {
		return empty
	}
	if lo[0] == hi[0] {
		return cat(lit(lo[:1]), sameLength(lo[1:], hi[1:]))
	}
	rest := len(lo) - 1
	zeros, nines := strings.Repeat("0", rest), strings.Repeat("9", rest)
	first, last := lo[0], hi[0]
	var alts []*expr
	if lo[1:] != zeros {
		alts = append(alts, cat(lit(lo[:1]), sameLength(lo[1:], nines)))
		first++
	}
	if hi[1:] != nines {
		alts = append(alts, cat(lit(hi[:1]), sameLength(zeros, hi[1:])))
		last--
	}
	if first <= last {
		alts = append(alts, cat(bytesOf(first, last), digits(rest, rest)))
	}
	return alt(alts...)
}

// bound is one end of a range of numbers, >= 0: its decimal digits.
type bound struct {
	whole    *big.Int
	frac     string // without trailing zeros
	excluded bool
}

// boundOf writes |x| in decimal; x must have a finite decimal form.
func boundOf(x *big.Rat, excluded bool) bound {
	abs := new(big.Rat).Abs(x)
	whole, frac, _ := strings.Cut(abs.FloatString(maxNumberDigits), ".")
	n, _ := new(big.Int).SetString(whole, 10)
	return bound{n, strings.TrimRight(frac, "0"), excluded}
}

// numberBounds are the ends of a range; nil means as far as intDigits go.
type numberBounds struct {
	lo, hi       *big.Rat
	loOut, hiOut bool
}

// numberRange matches the numbers within b without exponent and with at most
// places digits after the point.
func numberRange(b numberBounds, places int) *expr {
	far := new(big.Rat).SetInt(pow10(intDigits))
	lo, hi, loOut, hiOut := b.lo, b.hi, b.loOut, b.hiOut
	if lo == nil {
		lo, loOut = new(big.Rat).Neg(far), true
	}
	if hi == nil {
		hi, hiOut = far, true
	}
	if c := lo.Cmp(hi); c > 0 || c == 0 && (loOut || hiOut) {
		return never
	}
	var alts []*expr
	zero := bound{whole: new(big.Int)}
	if lo.Sign() < 0 {
		least := bound{whole: new(big.Int), excluded: true} // no -0
		if hi.Sign() < 0 {
			least = boundOf(hi, hiOut)
		}
		alts = append(alts, cat(lit("-"), decimals(least, boundOf(lo, loOut), places)))
	}
	if hi.Sign() > 0 || hi.Sign() == 0 && !hiOut {
		least := zero
		if lo.Sign() > 0 {
			least = boundOf(lo, loOut)
		} else if lo.Sign() == 0 {
			least.excluded = loOut
		}
		alts = append(alts, decimals(least, boundOf(hi, hiOut), places))
	}
	return alt(alts...)
}

// decimals matches the numbers from lo to hi, both >= 0.
func decimals(lo, hi bound, places int) *expr {
	if lo.whole.Cmp(hi.whole) == 0 {
		f := fractions{lo: lo.frac, hi: hi.frac, loOut: lo.excluded, hiOut: hi.excluded, places: places}
		return cat(lit(lo.whole.String()), f.expr(true, true))
	}
	one := big.NewInt(1)
	low := fractions{lo: lo.frac, loOut: lo.excluded, places: places}
	high := fractions{hi: hi.frac, hiOut: hi.excluded, places: places}
	return alt(
		cat(lit(lo.whole.String()), low.expr(true, false)),
		cat(intRange(new(big.Int).Add(lo.whole, one), new(big.Int).Sub(hi.whole, one)), fraction(places)),
		cat(lit(hi.whole.String()), high.expr(false, true)),
	)
}

// fractions matches what may follow the whole part: nothing, or a point and
// digits, between two digit strings.
type fractions struct {
	lo, hi       string
	loOut, hiOut bool
	places       int
}

func (f fractions) expr(loTight, hiTight bool) *expr {
	end := never
	if f.mayEnd(0, loTight, hiTight) {
		end = empty
	}
	if f.places == 0 {
		return end
	}
	return alt(end, cat(lit("."), f.from(0, loTight, hiTight)))
}

// mayEnd reports whether the digits so far, i of them, are a number in range;
// tight says that they equal the beginning of the bound.
func (f fractions) mayEnd(i int, loTight, hiTight bool) bool {
	if loTight && (len(f.lo) > i || f.loOut) {
		return false
	}
	return !hiTight || len(f.hi) > i || !f.hiOut
}

// from matches the digits from the i-th on, at least one.
func (f fractions) from(i int, loTight, hiTight bool) *expr {
	loTight = loTight && (len(f.lo) > i || f.loOut)
	switch {
	case i == f.places:
		return never
	case !loTight && !hiTight:
		return digits(1, f.places-i)
	}
	first, last := byte('0'), byte('9')
	if loTight && i < len(f.lo) {
		first = f.lo[i]
	}
	if hiTight {
		last = '0'
		if i < len(f.hi) {
			last = f.hi[i]
		}
	}
	low, high := first, last
	edge := func(c byte) *expr {
		lo, hi := loTight && c == low, hiTight && c == high
		end := never
		if f.mayEnd(i+1, lo, hi) {
			end = empty
		}
		return cat(bytesOf(c, c), alt(end, f.from(i+1, lo, hi)))
	}
	var alts []*expr
	if first == last || loTight {
		alts = append(alts, edge(first))
		first++
	}
	if first <= last && hiTight {
		alts = append(alts, edge(last))
		last--
	}
	if first <= last {
		alts = append(alts, cat(bytesOf(first, last), digits(0, f.places-i-1)))
	}
	return alt(alts...)
}
