package grammar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// enforced has, per keyword of JSON Schema draft 2020-12 that outputs keep to, schemas
// that say something with it, in Unicode where there are words.
var enforced = map[string][]string{
	"type":                 {`{"type":["integer","null"]}`, `{"type":"string"}`},
	"enum":                 {`{"enum":["né","😀 漢字",3,null,{"ключ":[1]}]}`},
	"const":                {`{"const":{"größe":["日本",2.5,false]}}`},
	"multipleOf":           {`{"type":"integer","multipleOf":7}`, `{"type":"number","multipleOf":0.01,"minimum":0,"maximum":5}`},
	"maximum":              {`{"type":"number","maximum":-2.5}`, `{"type":"integer","maximum":12}`},
	"exclusiveMaximum":     {`{"type":"number","exclusiveMaximum":3}`, `{"type":"integer","exclusiveMaximum":3}`},
	"minimum":              {`{"type":"number","minimum":99.5}`, `{"type":"integer","minimum":-3}`},
	"exclusiveMinimum":     {`{"type":"number","exclusiveMinimum":0,"maximum":1}`, `{"type":"integer","exclusiveMinimum":-1}`},
	"maxLength":            {`{"type":"string","maxLength":3}`},
	"minLength":            {`{"type":"string","minLength":5}`, `{"type":"string","minLength":2,"maxLength":2,"pattern":"^[é漢😀a]*$"}`},
	"pattern":              {`{"type":"string","pattern":"^[а-яё]{2,5} [一-龥]+$"}`, `{"type":"string","pattern":"^(?=.*\\d)[a-zé\\d]{3,9}$"}`},
	"format":               {`{"type":"string","format":"date-time"}`, `{"type":"string","format":"uuid"}`, `{"type":"string","format":"ipv4"}`},
	"items":                {`{"type":"array","items":{"enum":["ä","ö"]},"maxItems":9}`},
	"prefixItems":          {`{"type":"array","prefixItems":[{"const":"ß"},{"type":"boolean"}],"items":false}`},
	"maxItems":             {`{"type":"array","items":{"type":"integer"},"maxItems":2}`},
	"minItems":             {`{"type":"array","items":{"type":"null"},"minItems":3,"maxItems":5}`},
	"properties":           {`{"type":"object","properties":{"имя":{"type":"string","maxLength":4},"\u00fc\"\\":{"type":"null"}},"additionalProperties":false}`},
	"required":             {`{"type":"object","properties":{"é":{"type":"boolean"},"b":{"type":"null"}},"required":["é"],"additionalProperties":false}`},
	"additionalProperties": {`{"type":"object","properties":{"漢":{"type":"null"}},"additionalProperties":{"type":"integer"}}`},
	"patternProperties":    {`{"type":"object","patternProperties":{"^[ñn]_[a-z]{1,3}$":{"type":"integer"}},"additionalProperties":false}`},
	"propertyNames":        {`{"type":"object","propertyNames":{"pattern":"^[éa-c]{1,4}$"},"additionalProperties":{"type":"boolean"}}`},
	"maxProperties":        {`{"type":"object","additionalProperties":{"type":"null"},"maxProperties":2}`},
	"minProperties":        {`{"type":"object","additionalProperties":{"type":"null"},"minProperties":1}`},
	"allOf":                {`{"allOf":[{"type":"string","minLength":2},{"maxLength":4},{"pattern":"^[é漢a-c]*$"}]}`},
	"anyOf":                {`{"anyOf":[{"type":"string","maxLength":2},{"type":"integer","minimum":5},{"const":["û"]}]}`},
	"oneOf":                {`{"oneOf":[{"type":"object","properties":{"kind":{"const":"å"},"n":{"type":"integer"}},"required":["kind","n"],"additionalProperties":false},{"type":"boolean"}]}`},
	"$ref":                 {`{"$ref":"#/$defs/été"}`, `{"$ref":"#/$defs/node"}`},
}

// definitions that the schemas of a test refer to; node is recursive.
const definitions = `"$defs":{"été":{"type":"string","enum":["été","hiver"]},"node":{"type":"object","properties":{"名":{"type":"string","maxLength":3},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["名","next"],"additionalProperties":false}%s}`

// surroundings are the places of a schema: alone, nested, in something recursive, as
// one of several, under names in Unicode.
var surroundings = map[string]func(inner string) string{
	"root": func(inner string) string { return fmt.Sprintf(`{"allOf":[%s],`+definitions+`}`, inner, "") },
	"nested": func(inner string) string {
		return fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":%s},"required":["b"],"additionalProperties":false},"minItems":1,"maxItems":2}},"required":["a"],"additionalProperties":false,`+definitions+`}`, inner, "")
	},
	"recursive": func(inner string) string {
		return fmt.Sprintf(`{"$ref":"#/$defs/tree",`+definitions+`}`, fmt.Sprintf(`,"tree":{"type":"object","properties":{"v":%s,"kids":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["v"],"additionalProperties":false}`, inner))
	},
	"union": func(inner string) string {
		return fmt.Sprintf(`{"type":"array","items":{"anyOf":[{"type":"array","prefixItems":[{"const":"ſ"},%s],"minItems":2,"items":false},{"const":"или"}]},"minItems":1,"maxItems":3,`+definitions+`}`, inner, "")
	},
	"unicode": func(inner string) string {
		return fmt.Sprintf(`{"type":"object","properties":{"ключ 😀":%s},"required":["ключ 😀"],"additionalProperties":false,`+definitions+`}`, inner, "")
	},
}

// TestEveryKeywordEverywhere: whatever a keyword stands in, texts keep to it.
func TestEveryKeywordEverywhere(t *testing.T) {
	v := jsonVocabulary()
	for keyword, schemas := range enforced {
		for _, inner := range schemas {
			require.Contains(t, inner, `"`+keyword+`"`)
			for place, around := range surroundings {
				schema := []byte(around(inner))
				g, err := grammar.CompileJSONSchema(schema, grammar.Options{})
				require.NoError(t, err, "%s, %s", keyword, place)
				validate := validator(t, schema)
				for seed := range uint64(3) {
					text := walk(t, g, v, seed)
					require.NoError(t, validate(text), "%s, %s: %s\n%s", keyword, place, schema, text)
				}
			}
		}
	}
}

// draft has the keywords of JSON Schema draft 2020-12 that are not enforced: those that
// say nothing about values, and those that are refused, with a value for each.
var draft = map[string]struct {
	value   string
	refused bool
}{
	"$schema": {`"https://json-schema.org/draft/2020-12/schema"`, false}, "$id": {`"https://example.com/x"`, false}, "$comment": {`"c"`, false},
	"$anchor": {`"x"`, false}, "$dynamicAnchor": {`"x"`, false}, "$vocabulary": {`{"https://example.com/v":false}`, false}, "$defs": {`{"a":{}}`, false},
	"title": {`"t"`, false}, "description": {`"d"`, false}, "default": {`1`, false}, "deprecated": {`true`, false}, "readOnly": {`true`, false},
	"writeOnly": {`true`, false}, "examples": {`[1]`, false},
	"contentEncoding": {`"base64"`, false}, "contentMediaType": {`"text/html"`, false}, "contentSchema": {`{}`, false},
	"$dynamicRef": {`"#x"`, true}, "not": {`{"type":"integer"}`, true}, "if": {`{}`, true}, "then": {`{}`, true}, "else": {`{}`, true},
	"dependentSchemas": {`{"a":{}}`, true}, "dependentRequired": {`{"a":["b"]}`, true}, "contains": {`{}`, true}, "minContains": {`1`, true},
	"maxContains": {`1`, true}, "uniqueItems": {`true`, true}, "unevaluatedItems": {`false`, true}, "unevaluatedProperties": {`false`, true},
}

// numDraftKeywords is how many keywords the meta-schemas of draft 2020-12 describe, less
// those that they call deprecated.
const numDraftKeywords = 57

// TestEveryKeywordOfTheDraft: each is enforced, without meaning for values, or refused by
// name and place, wherever it stands.
func TestEveryKeywordOfTheDraft(t *testing.T) {
	require.Equal(t, numDraftKeywords, len(enforced)+len(draft))
	for keyword, d := range draft {
		require.NotContains(t, enforced, keyword)
		for place, around := range map[string]string{
			"":                      `%s`,
			"/properties/a":         `{"type":"object","properties":{"a":%s}}`,
			"/properties/é/items":   `{"type":"object","properties":{"é":{"type":"array","items":%s}}}`,
			"/anyOf/1":              `{"anyOf":[{"type":"null"},%s]}`,
			"/$defs/x":              `{"$ref":"#/$defs/x","$defs":{"x":%s}}`,
			"/additionalProperties": `{"type":"object","additionalProperties":%s}`,
			"/prefixItems/0":        `{"type":"array","prefixItems":[%s]}`,
		} {
			inner, err := json.Marshal(map[string]json.RawMessage{"type": []byte(`["string","array","object"]`), keyword: []byte(d.value)})
			require.NoError(t, err)
			_, err = grammar.CompileJSONSchema([]byte(fmt.Sprintf(around, inner)), grammar.Options{Param: "response_format", Path: "schema"})
			if !d.refused {
				if err != nil && keyword == "$id" && strings.Contains(err.Error(), "$id") {
					continue // below the root it changes what references mean
				}
				require.NoError(t, err, "%s at %q", keyword, place)
				continue
			}
			require.ErrorContains(t, err, "schema"+place+": ")
			require.ErrorContains(t, err, "'"+keyword+"'")
		}
	}
}
