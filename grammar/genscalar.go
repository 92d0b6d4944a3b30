package grammar

import (
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// anyText is any text within quotes.
var anyText = star(jsonCharOf(anyRune))

// regexAt reads patterns as JavaScript does, for text within JSON quotes.
func (c *schemaCompiler) regexAt(where string) *regex {
	return &regex{meter: c.meter, opts: c.opts, where: where, charOf: jsonCharOf, pad: anyText, ecma: true, known: c.known, matchers: c.matchers}
}

// matches reports whether text matches pattern somewhere.
func (r *regex) matches(pattern, text string) (bool, *infer.Error) {
	m, err := r.matcher(pattern)
	if err != nil {
		return false, err
	}
	r.spend(min(m.work*(1+len(text))/8, maxWork))
	return m.MatchString(text), nil
}

// matcher is a pattern that runs, and about what each character costs.
type matcher struct {
	*regexp.Regexp
	work int
}

// matcher returns that of a pattern, which is made once.
func (r *regex) matcher(pattern string) (*matcher, *infer.Error) {
	if m := r.matchers[pattern]; m != nil {
		return m, nil
	}
	tree, bad := r.parse(pattern)
	if bad != nil {
		return nil, bad
	}
	work := progWork(tree)
	r.spend(min(20*work, maxWork))
	re, err := regexp.Compile(r.rewrite(pattern))
	if err != nil {
		return nil, r.invalid("pattern %q can't be compiled", short(pattern))
	}
	r.matchers[pattern] = &matcher{re, work}
	return r.matchers[pattern], nil
}

func (c *schemaCompiler) genString(s *schema) (*expr, *infer.Error) {
	c.spend(50)
	if n := s.length; n.max >= 0 && n.min > n.max {
		return nil, c.bad(s.ptr, "minLength %d is more than maxLength %d", n.min, n.max)
	}
	if len(s.texts) > 0 {
		inside, err := c.genTexts(s)
		if err != nil {
			return nil, err
		}
		return join(lit(`"`), join(inside, lit(`"`))), nil
	}
	if s.length == anyCount {
		return ref(ruleString), nil
	}
	return cat(lit(`"`), repeat(freeChar, s.length.min, s.length.max), lit(`"`)), nil
}

// genTexts matches the characters of a string with patterns or formats.
func (c *schemaCompiler) genTexts(s *schema) (*expr, *infer.Error) {
	var all []condition
	for _, t := range s.texts {
		more, err := c.parseText(s, t)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if len(all) > 1 {
		return c.genProduct(s, all)
	}
	r := c.regexAt(s.ptr + "/pattern")
	if lengthOf(all[0].tree, true, true).within(s.length) {
		return r.translate(all[0].tree)
	}
	// One class, repeated: then the lengths are the counts.
	class, count, ok := repeatedClass(all[0].tree)
	if !ok {
		return c.genProduct(s, all)
	}
	n := count.and(s.length)
	if n.max >= 0 && n.min > n.max {
		return c.never(s, "no text of the length that 'minLength' and 'maxLength' say matches 'pattern'"), nil
	}
	e, err := r.inner(class)
	if err != nil {
		return nil, err
	}
	return repeat(e, n.min, n.max), nil
}

func (c *schemaCompiler) parseText(s *schema, t text) ([]condition, *infer.Error) {
	if !t.format {
		return c.conditions(s, t.value)
	}
	pattern, ok := formats[t.value]
	if !ok {
		return nil, c.bad(s.ptr, "keyword 'format' with value %q is not supported", short(t.value))
	}
	tree, err := c.regexAt(s.ptr + "/format").parse(`^(?:` + pattern + `)$`)
	return []condition{{tree: tree}}, err
}

// repeatedClass takes ^class{m,n}$ apart.
func repeatedClass(re *syntax.Regexp) (class *syntax.Regexp, count span, ok bool) {
	if re.Op != syntax.OpConcat || len(re.Sub) != 3 || re.Sub[0].Op != syntax.OpBeginText || re.Sub[2].Op != syntax.OpEndText {
		return nil, count, false
	}
	mid := re.Sub[1]
	for mid.Op == syntax.OpCapture {
		mid = mid.Sub[0]
	}
	switch mid.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		lo, hi := times(mid)
		class = mid.Sub[0]
		one := lengthOf(class, false, false) == span{1, 1}
		return class, span{lo, hi}, one && !hasAnchor(class)
	}
	return nil, count, false
}

// hasAnchor is regex.anchored without its count of work: it looks once.
func hasAnchor(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText || slices.ContainsFunc(re.Sub, hasAnchor)
}

// lengthOf returns how many characters a match of re has, between left and
// right end as in regex.edges.
func lengthOf(re *syntax.Regexp, left, right bool) span {
	switch re.Op {
	case syntax.OpAlternate:
		out := lengthOf(re.Sub[0], left, right)
		for _, s := range re.Sub[1:] {
			n := lengthOf(s, left, right)
			out.min = min(out.min, n.min)
			if out.max < 0 || n.max < 0 {
				out.max = -1
			} else {
				out.max = max(out.max, n.max)
			}
		}
		return out
	case syntax.OpCapture:
		return lengthOf(re.Sub[0], left, right)
	case syntax.OpConcat:
		out := span{}
		for i, s := range re.Sub {
			// Only a plain anchor at the very end closes that end.
			out = out.plus(lengthOf(s, left && i == 0, right && i == len(re.Sub)-1))
		}
		return out
	case syntax.OpBeginText:
		return span{0, -1}.unless(!right)
	case syntax.OpEndText:
		return span{0, -1}.unless(!left)
	}
	n := plainLength(re)
	if left || right {
		n.max = -1
	}
	return n
}

// unless returns nothing at all if closed, else a.
func (a span) unless(closed bool) span {
	if closed {
		return span{}
	}
	return a
}

func (a span) plus(b span) span {
	if a.max < 0 || b.max < 0 {
		return span{a.min + b.min, -1}
	}
	return span{a.min + b.min, min(a.max+b.max, maxRepeat)}
}

func plainLength(re *syntax.Regexp) span {
	switch re.Op {
	case syntax.OpLiteral:
		return span{len(re.Rune), len(re.Rune)}
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return span{1, 1}
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		lo, hi := times(re)
		n := lengthOf(re.Sub[0], false, false)
		if n.max == 0 || hi == 0 {
			return span{}
		}
		if hi < 0 || n.max < 0 {
			return span{n.min * lo, -1}
		}
		return span{n.min * lo, min(n.max*hi, maxRepeat)}
	}
	return span{}
}

// bounds checks and cuts the limits of a number to what intDigits can hold.
func (c *schemaCompiler) bounds(s *schema) (lo, hi *big.Rat, err *infer.Error) {
	far := new(big.Rat).SetInt(pow10(intDigits))
	lo, hi = s.min, s.max
	if lo != nil && hi != nil {
		if n := lo.Cmp(hi); n > 0 || n == 0 && (s.minOut || s.maxOut) {
			return nil, nil, c.bad(s.ptr, "the minimum %s leaves nothing below the maximum %s", lo.RatString(), hi.RatString())
		}
	}
	for _, x := range []*big.Rat{lo, hi} {
		if x != nil && !new(big.Rat).Mul(x, new(big.Rat).SetInt(pow10(maxNumberDigits))).IsInt() {
			return nil, nil, c.bad(s.ptr, "a bound has more than the limit of %d digits after the point", maxNumberDigits)
		}
	}
	if lo != nil && lo.Cmp(far) >= 0 || hi != nil && new(big.Rat).Neg(hi).Cmp(far) >= 0 {
		return nil, nil, c.bad(s.ptr, "a bound leaves only numbers of more than the limit of %d digits", intDigits)
	}
	if lo != nil && new(big.Rat).Neg(lo).Cmp(far) >= 0 {
		lo = nil
	}
	if hi != nil && hi.Cmp(far) >= 0 {
		hi = nil
	}
	return lo, hi, nil
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// rangeWork estimates what the digits of a bound cost: for each digit a choice at
// every length. nil stands for the longest there are.
func rangeWork(bound *big.Rat) int {
	const perChoice = 40
	n := intDigits
	if bound != nil {
		whole := new(big.Int).Quo(bound.Num(), bound.Denom())
		n = 1 + whole.BitLen()*3/10 + min((bound.Denom().BitLen()-1)*3/10, maxNumberDigits)
	}
	return perChoice * n * n
}

// genNumber matches numbers; with a multipleOf that is an integer only integers.
func (c *schemaCompiler) genNumber(s *schema) (*expr, *infer.Error) {
	places := fracDigits
	if m := s.multipleOf; m != nil {
		if m.IsInt() && m.Sign() > 0 {
			return c.genInteger(s)
		}
		if places = placesOf(m); places < 0 {
			return nil, c.bad(s.ptr, "keyword 'multipleOf' of %s is not supported for numbers, only integers and 0.1, 0.01 and so on", m.RatString())
		}
	}
	lo, hi, err := c.bounds(s)
	if err != nil {
		return nil, err
	}
	if lo == nil && hi == nil && s.multipleOf == nil {
		return ref(ruleNumber), nil
	}
	c.spend(5_000 + rangeWork(lo) + rangeWork(hi))
	e := numberRange(numberBounds{lo, hi, s.minOut, s.maxOut}, places)
	if e.kind == kindNever {
		return c.never(s, "no number lies within its bounds"), nil
	}
	return e, nil
}

// placesOf returns n if x is 10^-n, -1 if it is no such number.
func placesOf(x *big.Rat) int {
	if x.Sign() <= 0 {
		return -1
	}
	inverse := new(big.Rat).Inv(x)
	for n := range fracDigits + 1 {
		if inverse.Cmp(new(big.Rat).SetInt(pow10(n))) == 0 {
			return n
		}
	}
	return -1
}

func (c *schemaCompiler) genInteger(s *schema) (*expr, *infer.Error) {
	lo, hi, err := c.bounds(s)
	if err != nil {
		return nil, err
	}
	c.spend(rangeWork(lo) + rangeWork(hi))
	least, most := big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	if lo != nil {
		least = ceil(lo, s.minOut)
	}
	if hi != nil {
		most = new(big.Int).Neg(ceil(new(big.Rat).Neg(hi), s.maxOut))
	}
	if least.Cmp(most) > 0 {
		return nil, c.bad(s.ptr, "there is no integer from %s to %s", least, most)
	}
	m := s.multipleOf
	switch {
	case m != nil && m.Sign() <= 0:
		return nil, c.bad(s.ptr, "keyword 'multipleOf' of %s: it must be above 0", m.RatString())
	case m != nil && m.Num().Cmp(big.NewInt(1)) != 0: // an integer is a multiple of p/q if it is one of p
		of := newMultiples(m.Num(), c.meter)
		e := intRangeOf(least, most, func(lo, hi string) *expr { return of.between(lo, hi, new(big.Int)) })
		if e == nil {
			return nil, c.bad(s.ptr, "keyword 'multipleOf' of %s takes more than the limit of %d states", m.RatString(), maxMultipleStates)
		}
		if e.kind == kindNever {
			return c.never(s, "no multiple of %s lies from %s to %s", m.RatString(), least, most), nil
		}
		return e, nil
	case lo == nil && hi == nil:
		return ref(ruleInteger), nil
	}
	return intRange(least, most), nil
}

// ceil returns the least integer that is at least x, or above x.
func ceil(x *big.Rat, above bool) *big.Int {
	n := new(big.Int).Div(x.Num(), x.Denom()) // the floor: the denominator is positive
	if above || !x.IsInt() {
		n.Add(n, big.NewInt(1))
	}
	return n
}
