package grammar

import (
	"math/big"

	"github.com/troupe-llm/troupe/infer"
)

// number returns what was built for the same numbers, or what build makes, as a
// rule that all of them call.
func (c *schemaCompiler) number(s *schema, kind string, build func(*schema) (*expr, *infer.Error)) (*expr, *infer.Error) {
	key := numberKey(s, kind)
	if e := c.numbers[key]; e != nil {
		return e, nil
	}
	e, err := build(s)
	if err != nil || e.kind == kindNever {
		return e, err
	}
	if e.kind != kindRef && e.kind != kindLit {
		rule := c.newRule()
		c.exprs[rule], c.names[rule] = e, kind
		e = ref(rule)
	}
	c.numbers[key] = e
	return e, nil
}

func numberKey(s *schema, kind string) string {
	for _, x := range []*big.Rat{s.min, s.max, s.multipleOf} {
		kind += " "
		if x != nil {
			kind += x.RatString()
		}
	}
	if s.minOut {
		kind += " above"
	}
	if s.maxOut {
		kind += " below"
	}
	return kind
}
