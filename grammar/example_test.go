package grammar_test

import (
	"fmt"

	"github.com/troupe-llm/troupe/grammar"
)

// A text of one property, token by token.
func ExampleMatcher() {
	v := grammar.NewVocabulary([][]byte{[]byte(`{"n":`), []byte("1"), []byte("9"), []byte("}"), []byte(" "), []byte("</s>")},
		grammar.VocabularyOptions{EOS: []int32{5}})
	g, err := grammar.CompileJSONSchema([]byte(`{"properties":{"n":{"type":"integer","minimum":5,"maximum":20}},"required":["n"]}`), grammar.Options{})
	if err != nil {
		panic(err)
	}
	m := g.NewMatcher(v)
	mask := make([]uint64, v.MaskWords())
	for _, token := range []int32{0, 1, 2, 3, 5} {
		m.Mask(mask)
		fmt.Printf("%06b %q\n", mask[0], m.Forced())
		if err := m.Accept(token); err != nil {
			panic(err)
		}
	}
	// Output:
	// 000001 "{\"n\":"
	// 010110 ""
	// 000110 ""
	// 001000 "}"
	// 100000 ""
}
