package grammar_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/grammar"
)

// combine makes one schema of two, in one of the ways in which schemas meet.
func combine(rt *rapid.T, a, b []byte) []byte {
	ways := []string{
		`{"allOf":[%s,%s]}`, `{"allOf":[{"anyOf":[%s,{"type":"null"}]},{"anyOf":[{"type":"boolean"},%s]}]}`, `{"anyOf":[%s,%s]}`, `{"oneOf":[%s,%s]}`,
		`{"type":"object","properties":{"p":%s,"q":%s},"required":["q"]}`, `{"type":"object","properties":{"p":%s},"additionalProperties":%s}`,
		`{"type":"array","prefixItems":[%s],"items":%s,"minItems":1,"maxItems":3}`,
		`{"allOf":[{"properties":{"p":%s}},{"type":"object","additionalProperties":%s,"required":["p"]}]}`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":%s,"b":%s}}`,
		`{"anyOf":[{"$ref":"#/$defs/b"},{"type":"array","items":{"$ref":"#/$defs/a"},"maxItems":2}],"$defs":{"a":%s,"b":%s}}`,
	}
	way := rapid.IntRange(0, len(ways)).Draw(rt, "way")
	if way < len(ways) {
		return fmt.Appendf(nil, ways[way], a, b)
	}
	both := map[string]json.RawMessage{} // the keywords of both in one schema
	for _, s := range [][]byte{a, b} {
		if json.Unmarshal(s, &both) != nil {
			return a
		}
	}
	out, err := json.Marshal(both)
	require.NoError(rt, err)
	return out
}

// TestCombinedSchemas combines schemas of the corpus: what compiles must be
// sound, whatever it is.
func TestCombinedSchemas(t *testing.T) {
	var corpus [][]byte
	for _, s := range lines(t, "schemas.jsonl") {
		if len(s) < 250 && !bytes.Contains(s, []byte("#")) && !bytes.Contains(s, []byte("$id")) {
			corpus = append(corpus, s)
		}
	}
	v := jsonVocabulary()
	rapid.Check(t, func(rt *rapid.T) {
		schema := rapid.SampledFrom(corpus).Draw(rt, "first")
		for range rapid.IntRange(1, 2).Draw(rt, "times") {
			schema = combine(rt, schema, rapid.SampledFrom(corpus).Draw(rt, "next"))
		}
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{})
		if err != nil {
			requireRefusal(rt, err)
			return
		}
		validate, err := tryValidator(schema)
		if err != nil {
			return // a combination of $defs that hides one of them
		}
		for range 3 {
			if text, complete := explore(rt, g, v, rapid.Uint64().Draw(rt, "seed")); complete {
				require.NoError(rt, validate(text), "%s\n%s", schema, text)
			}
		}
	})
}
