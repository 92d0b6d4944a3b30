package grammar_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

func validator(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err)
	return s
}

func TestSchemaWalksValidate(t *testing.T) {
	v := bytesVocabulary()
	for _, s := range []string{
		`{}`, `true`, `{"type":"string"}`, `{"type":"integer","minimum":-5,"maximum":300}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":2,"maxLength":5},"b":{"type":["integer","null"]},"c":{"enum":["x","y",3,null]}},"required":["b"]}`,
		`{"$defs":{"n":{"type":"object","properties":{"v":{"type":"number"},"k":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v","k"],"additionalProperties":false}},"$ref":"#/$defs/n"}`,
		`{"type":"number","minimum":-1.25,"exclusiveMaximum":3.5}`,
		`{"type":"string","format":"date-time"}`, `{"type":"string","format":"email"}`,
		`{"type":"object","properties":{"ab":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
	} {
		t.Run(s, func(t *testing.T) {
			g, err := grammar.CompileJSONSchema([]byte(s), grammar.Options{})
			require.NoError(t, err)
			val := validator(t, s)
			for seed := range uint64(30) {
				text := walk(t, g, v, seed)
				require.True(t, json.Valid([]byte(text)), text)
				doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				require.NoError(t, err, text)
				require.NoError(t, val.Validate(doc), text)
			}
		})
	}
}
