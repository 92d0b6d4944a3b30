package grammar_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

// jsonVocabulary has every byte and tokens that cross the borders of the
// grammar: ends of strings with what follows, halves of characters, escapes.
func jsonVocabulary() *grammar.Vocabulary {
	return bytesVocabulary(
		`{"`, `":`, `":"`, `": "`, `","`, `", "`, `"}`, `"},{"`, `"]}`, `"}]`, `[]`, `[{"`, `}}`, `]]`, `],[`, `{}`, `,"`, `, `, `: `, `:{"`, `:[`,
		"true", "false", "null", `null,"`, `true}`, "nu", "ll", "tr", "ue", `1,`, `12`, `123`, `00`, `0.`, `.5`, `e+`, `e-0`, `-1`, `-0`, `1]`, `2}`, `9,"`,
		`\"`, `\\`, `\n`, `\u`, `\u00`, `\ud8`, `3d\ude`, `00e9`, "\xc3", "\xa9\"", "é", "日本", "\xe6\x97", "\xa5\xe6", "😀", "\xf0\x9f", "\x98\x80",
		"a", "ab", "abc", "the", " the", "  ", "    ", `a"`, `ab",`, `a":`, `name`, `type`, `kind`, `id`, `k1`, `-01-`, `2024`, `T1`, `:0`, `Z"`, `@a.`, `.com`, `::`, `aaaa`,
	)
}

// lines reads a file of testdata.
func lines(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var out [][]byte
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		out = append(out, bytes.Clone(s.Bytes()))
	}
	return out
}

// unicodeEscape is how JavaScript writes a character that Go writes as \x{....}.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// compilePattern takes the standard library for what it knows, and another one
// for lookaheads.
func compilePattern(p string) (jsonschema.Regexp, error) {
	if !strings.Contains(p, "(?!") && !strings.Contains(p, "(?=") {
		return regexp.Compile(unicodeEscape.ReplaceAllString(p, `\x{$1}`))
	}
	re, err := regexp2.Compile(p, regexp2.ECMAScript)
	return lookahead{re}, err
}

type lookahead struct{ *regexp2.Regexp }

func (l lookahead) MatchString(s string) bool {
	ok, err := l.Regexp.MatchString(s)
	return ok && err == nil
}

// validator compiles a schema with an independent library.
func validator(t require.TestingT, schema []byte) func(text string) error {
	validate, err := tryValidator(schema)
	require.NoError(t, err)
	return validate
}

func tryValidator(schema []byte) (func(text string) error, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, err
	}
	return func(text string) error {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return s.Validate(doc)
	}, nil
}

// TestSchemaCorpus walks every schema of the corpus at random: each text must
// end, be JSON, validate, and be accepted again as encoding/json writes it.
func TestSchemaCorpus(t *testing.T) {
	v := jsonVocabulary()
	corpus := lines(t, "schemas.jsonl")
	require.GreaterOrEqual(t, len(corpus), 300)
	for _, schema := range corpus {
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{})
		require.NoError(t, err, "%s", schema)
		validate := validator(t, schema)
		for seed := range uint64(4) {
			text := walk(t, g, v, seed)
			var decoded any
			require.NoError(t, json.Unmarshal([]byte(text), &decoded), "%s\n%s", schema, text)
			require.NoError(t, validate(text), "%s\n%s", schema, text)
			// Where a number has bounds there are no exponents, and encoding/json writes some.
			if again, exponent := rewrite(t, text); !exponent {
				require.True(t, acceptsBytes(g, v, again), "%s\n%s\n%s", schema, text, again)
			}
		}
	}
}

// rewrite decodes a JSON text and writes it as encoding/json does, with the
// members in the order that they had. exponent says that a number now has one.
func rewrite(t *testing.T, text string) (again string, exponent bool) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out strings.Builder
	var value func()
	value = func() {
		tok, err := d.Token()
		require.NoError(t, err)
		delim, ok := tok.(json.Delim)
		if !ok {
			if n, ok := tok.(json.Number); ok && strings.ContainsAny(n.String(), ".eE") {
				tok, err = n.Float64() // others are integers, that a float64 might not hold
				require.NoError(t, err)
			}
			b, err := json.Marshal(tok)
			require.NoError(t, err)
			out.Write(b)
			_, isFloat := tok.(float64)
			exponent = exponent || isFloat && bytes.ContainsRune(b, 'e')
			return
		}
		out.WriteString(delim.String())
		for n := 0; d.More(); n++ {
			if n > 0 {
				out.WriteByte(',')
			}
			if delim == '{' {
				value()
				out.WriteByte(':')
			}
			value()
		}
		end, err := d.Token()
		require.NoError(t, err)
		out.WriteString(end.(json.Delim).String())
	}
	value()
	return out.String(), exponent
}

// acceptsBytes is accepts without looking at the masks.
func acceptsBytes(g *grammar.Grammar, v *grammar.Vocabulary, text string) bool {
	m := g.NewMatcher(v)
	for _, b := range []byte(text) {
		if m.Accept(int32(b)) != nil {
			return false
		}
	}
	return m.Allowed(int32(v.Size() - 1))
}

// TestSchemaRefused: what is not supported names its keyword and its place.
func TestSchemaRefused(t *testing.T) {
	const path = "response_format.json_schema.schema"
	for _, line := range lines(t, "refused.jsonl") {
		var c struct {
			Want   string
			Schema json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &c))
		g, err := grammar.CompileJSONSchema(c.Schema, grammar.Options{Param: "response_format", Path: path})
		require.Error(t, err, "%s", c.Schema)
		require.Nil(t, g)
		var e *infer.Error
		require.True(t, errors.As(err, &e), "%s", c.Schema)
		require.Equal(t, infer.CodeInvalid, e.Code)
		require.Equal(t, "response_format", e.Param)
		require.Contains(t, e.Message, c.Want, "%s", c.Schema)
		require.Contains(t, e.Message, path, "%s", c.Schema)
	}
}
