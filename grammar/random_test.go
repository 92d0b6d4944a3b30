package grammar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/grammar"
)

// sample is a schema together with a way to draw texts that satisfy it, written
// as encoding/json would, members in the order of the schema.
type sample struct {
	schema string
	draw   func(*rapid.T) string
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var anyText = rapid.StringOfN(rapid.OneOf(rapid.SampledFrom([]rune("ab\"\\\n\t\x01<é日😀 /")), rapid.Rune()), 0, 8, -1)

func oneOf(rt *rapid.T, texts ...string) string { return rapid.SampledFrom(texts).Draw(rt, "text") }

func drawScalar(rt *rapid.T) sample {
	switch rapid.IntRange(0, 7).Draw(rt, "scalar") {
	case 0:
		return sample{`{"type":"string"}`, func(rt *rapid.T) string { return encode(anyText.Draw(rt, "s")) }}
	case 1:
		lo := rapid.IntRange(0, 60).Draw(rt, "lo")
		hi := rapid.IntRange(lo, lo+60).Draw(rt, "hi")
		return sample{fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, lo, hi), func(rt *rapid.T) string {
			return encode(rapid.StringN(lo, hi, -1).Draw(rt, "s"))
		}}
	case 2:
		lo := rapid.Int64().Draw(rt, "lo")
		hi := rapid.Int64Min(lo).Draw(rt, "hi")
		return sample{fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, lo, hi), func(rt *rapid.T) string {
			return encode(rapid.Int64Range(lo, hi).Draw(rt, "n"))
		}}
	case 3:
		lo := rapid.Int64Range(-100_000, 100_000).Draw(rt, "lo")
		hi := rapid.Int64Range(lo+1, lo+100_000).Draw(rt, "hi")
		return sample{fmt.Sprintf(`{"type":"number","minimum":%g,"exclusiveMaximum":%g}`, float64(lo)/1000, float64(hi)/1000), func(rt *rapid.T) string {
			return encode(float64(rapid.Int64Range(lo*100, hi*100-1).Draw(rt, "n")) / 100_000)
		}}
	case 4:
		return sample{`{"type":"number"}`, func(rt *rapid.T) string { return encode(rapid.Float64Range(-1e307, 1e307).Draw(rt, "f")) }}
	case 5:
		return sample{`{"type":["boolean","null"]}`, func(rt *rapid.T) string { return oneOf(rt, "true", "false", "null") }}
	case 6:
		values := rapid.SliceOfN(anyText, 1, 6).Draw(rt, "values")
		return sample{`{"enum":` + encode(values) + `}`, func(rt *rapid.T) string { return encode(rapid.SampledFrom(values).Draw(rt, "v")) }}
	}
	if rapid.Bool().Draw(rt, "lengths") {
		lo := rapid.IntRange(0, 6).Draw(rt, "lo")
		hi := rapid.IntRange(max(lo, 4), 20).Draw(rt, "hi")
		p := rapid.SampledFrom([]string{`^[a-z][a-z0-9-]*$`, `^(ab|c)*d?$`, `x`, `^é*[^a]{2}`, `\S$`}).Draw(rt, "pattern")
		return sample{fmt.Sprintf(`{"type":"string","pattern":%s,"minLength":%d,"maxLength":%d}`, encode(p), lo, hi), func(rt *rapid.T) string {
			return encode(rapid.StringMatching(p).Filter(func(s string) bool {
				n := utf8.RuneCountInString(s)
				return n >= lo && n <= hi && strings.ContainsFunc(s, func(r rune) bool { return r > ' ' && r != 0xa0 && !unicode.IsSpace(r) && r != 0xfeff })
			}).Draw(rt, "s"))
		}}
	}
	p := rapid.SampledFrom([]string{`^[a-c]{2,30}$`, `^(ab|c)*d$`, `^\d{3}-\d{2}$`, `^é?[^a]$`}).Draw(rt, "pattern")
	return sample{`{"type":"string","pattern":` + encode(p) + `}`, func(rt *rapid.T) string { return encode(rapid.StringMatching(p).Draw(rt, "s")) }}
}

func drawSchema(rt *rapid.T, depth int) sample {
	if depth == 0 {
		return drawScalar(rt)
	}
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0, 1:
		return drawObject(rt, depth)
	case 2:
		return drawArray(rt, depth)
	case 3:
		a, b := drawSchema(rt, depth-1), drawSchema(rt, depth-1)
		return sample{`{"anyOf":[` + a.schema + `,` + b.schema + `]}`, func(rt *rapid.T) string {
			if rapid.Bool().Draw(rt, "first") {
				return a.draw(rt)
			}
			return b.draw(rt)
		}}
	case 4:
		return sample{`{"$ref":"#/$defs/tree"}`, func(rt *rapid.T) string { return drawTree(rt, 3) }}
	}
	return drawScalar(rt)
}

// defs go with every random schema.
const defs = `"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"k":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":3}},"required":["v"],"additionalProperties":false}}`

func drawTree(rt *rapid.T, depth int) string {
	v := encode(rapid.Int32().Draw(rt, "v"))
	if depth == 0 || rapid.Bool().Draw(rt, "leaf") {
		return `{"v":` + v + `}`
	}
	kids := make([]string, rapid.IntRange(0, 3).Draw(rt, "kids"))
	for i := range kids {
		kids[i] = drawTree(rt, depth-1)
	}
	return `{"v":` + v + `,"k":[` + strings.Join(kids, ",") + `]}`
}

func drawArray(rt *rapid.T, depth int) sample {
	item := drawSchema(rt, depth-1)
	lo := rapid.IntRange(0, 4).Draw(rt, "lo")
	hi := rapid.IntRange(lo, lo+30).Draw(rt, "hi")
	return sample{fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, item.schema, lo, hi), func(rt *rapid.T) string {
		items := make([]string, rapid.IntRange(lo, min(hi, lo+3)).Draw(rt, "n"))
		for i := range items {
			items[i] = item.draw(rt)
		}
		return `[` + strings.Join(items, ",") + `]`
	}}
}

func drawObject(rt *rapid.T, depth int) sample {
	names := rapid.SliceOfNDistinct(anyText, 0, 5, rapid.ID).Draw(rt, "names")
	props := make([]sample, len(names))
	required := []string{}
	var list []string
	for i, n := range names {
		props[i] = drawSchema(rt, depth-1)
		list = append(list, encode(n)+":"+props[i].schema)
		if rapid.Bool().Draw(rt, "required") {
			required = append(required, n)
		}
	}
	open := rapid.Bool().Draw(rt, "open")
	extra := `false`
	if open {
		extra = `{"type":"boolean"}`
	}
	schema := `{"type":"object","properties":{` + strings.Join(list, ",") + `},"required":` + encode(required) + `,"additionalProperties":` + extra + `}`
	return sample{schema, func(rt *rapid.T) string {
		var out []string
		for i, n := range names {
			if strings.Contains(encode(required), encode(n)) || rapid.Bool().Draw(rt, "there") {
				out = append(out, encode(n)+":"+props[i].draw(rt))
			}
		}
		for open && rapid.Bool().Draw(rt, "more") {
			more := anyText.Filter(func(s string) bool { return !strings.Contains(encode(names), encode(s)) }).Draw(rt, "name")
			out = append(out, encode(more)+":true")
		}
		return `{` + strings.Join(out, ",") + `}`
	}}
}

// TestRandomSchemas goes both ways: what the masks allow validates, and what
// satisfies the schema is accepted.
func TestRandomSchemas(t *testing.T) {
	v := jsonVocabulary()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSchema(rt, 3)
		schema := `{"allOf":[` + s.schema + `],` + defs + `}`
		g, err := grammar.CompileJSONSchema([]byte(schema), grammar.Options{})
		require.NoError(rt, err, "%s", schema)
		validate := validator(rt, []byte(schema))
		for range 3 {
			text := s.draw(rt)
			require.NoError(rt, validate(text), "%s\n%s", schema, text)
			if !strings.Contains(schema, "exclusiveMaximum") || !strings.Contains(text, "e-") { // bounded numbers have no exponents
				require.True(rt, acceptsBytes(g, v, text), "%s\n%s", schema, text)
			}
		}
		text := walk(rt, g, v, rapid.Uint64().Draw(rt, "seed"))
		require.True(rt, json.Valid([]byte(text)), "%s\n%s", schema, text)
		require.NoError(rt, validate(text), "%s\n%s", schema, text)
	})
}
