package grammar

import (
	"math"
	"math/big"
	"sync"
)

// The rules of the prelude: what every schema may need. They come first in
// every program at the same nodes, so that a vocabulary keeps their masks for
// all grammars.
const (
	ruleString  = iota // a string with its quotes
	ruleNumber         // a number that float64 holds
	ruleInteger        // an integer that int64 holds
	ruleAny            // ruleAny+d: a value that nests at most d deep
	ruleObject  = ruleAny + anyDepth + 1
	ruleArray   = ruleObject + 1
	ruleFree    = ruleArray + 1 // a counted loop over freeChar, for its local
)

var prelude = sync.OnceValue(func() *program {
	b := from(bare(), Options{})
	for range ruleFree + 1 {
		b.newRule()
	}
	b.exprs[ruleString] = cat(lit(`"`), star(freeChar), lit(`"`))
	b.exprs[ruleNumber] = anyNumber()
	b.exprs[ruleInteger] = intRange(big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64))
	for d := range anyDepth + 1 {
		alts := []*expr{ref(ruleString), ref(ruleNumber), lit("true"), lit("false"), lit("null"), lit("{}"), lit("[]")}
		if d > 0 {
			alts = append(alts, objectOf(ref(ruleAny+d-1)), arrayOf(ref(ruleAny+d-1)))
		}
		b.exprs[ruleAny+d] = alt(alts...)
	}
	b.exprs[ruleObject] = alt(lit("{}"), objectOf(ref(ruleAny+anyDepth-1)))
	b.exprs[ruleArray] = alt(lit("[]"), arrayOf(ref(ruleAny+anyDepth-1)))
	b.exprs[ruleFree] = repeat(freeChar, 0, maxRepeat)
	p, err := b.build(ruleAny + anyDepth)
	if err != nil {
		panic(err) // nothing from outside is in it
	}
	return p
})

// comma and colon may be followed by one space: all the white space there is.
var (
	comma = cat(lit(","), maybe(lit(" ")))
	colon = cat(lit(":"), maybe(lit(" ")))
)

// objectOf matches an object with at least one member, all names free.
func objectOf(value *expr) *expr {
	member := cat(ref(ruleString), colon, value)
	return cat(lit("{"), member, star(cat(comma, member)), lit("}"))
}

// arrayOf matches an array with at least one item.
func arrayOf(item *expr) *expr {
	return cat(lit("["), item, star(cat(comma, item)), lit("]"))
}

// CompileJSONObject allows any JSON object, nested at most 16 deep.
func CompileJSONObject(o Options) (*Grammar, error) {
	return compile(o, func(b *builder) (*Grammar, error) { return b.compileRule(ref(ruleObject)) })
}
