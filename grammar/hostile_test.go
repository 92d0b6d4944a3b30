package grammar_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// many joins n texts made by format, which gets the number and the next one.
func many(n int, format, sep string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i, i+1)
	}
	return strings.Join(parts, sep)
}

// hostileSchemas are made to grow: they compile, or meet a limit by name.
func hostileSchemas() map[string]string {
	nest := func(n int, open, end string) string {
		return strings.Repeat(open, n) + `{"type":"integer"}` + strings.Repeat(end, n)
	}
	return map[string]string{
		`{"type":"object","properties":{` + many(1000, `"p%d":{"type":"string","maxLength":%d}`, ",") + `}}`: "",
		`{"type":"object","properties":{` + many(1001, `"p%d":{"type":"string","maxLength":%d}`, ",") + `}}`: "limit of 1000",
		nest(45, `{"type":"array","minItems":1,"items":`, `}`):                                               "",
		nest(30, `{"type":"object","properties":{"b":{"type":"string"},"a":`, `}}`):                          "",
		nest(101, `{"items":`, `}`): "nests deeper than the limit of 100",
		`{"$ref":"#/$defs/a0","$defs":{` + many(3000, `"a%d":{"$ref":"#/$defs/a%d"}`, ",") + `,"a3000":{}}}`:                                                                                    "",
		`{"$ref":"#/$defs/a0","$defs":{` + many(60, `"a%d":{"allOf":[{"$ref":"#/$defs/a%[2]d"},{"$ref":"#/$defs/a%[2]d"}]}`, ",") + `,"a60":{"minLength":1}}}`:                                  "limit of 100",
		`{"$ref":"#/$defs/a0","$defs":{` + many(40, `"a%d":{"anyOf":[{"$ref":"#/$defs/a%[2]d"},{"allOf":[{"$ref":"#/$defs/a%[2]d"},{"minimum":%[1]d}]}]}`, ",") + `,"a40":{"type":"integer"}}}`: "limit of 100000 steps",
		`{"$ref":"#/$defs/a0","$defs":{` + many(30, `"a%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/a%[2]d"},"y":{"$ref":"#/$defs/a%[2]d"}}}`, ",") + `,"a30":{}}}`:                  "",
		`{"enum":[` + many(4000, `"value <%d> %d"`, ",") + `]}`: "",
		`{"enum":[` + many(10001, `%d.%d`, ",") + `]}`:          "limit of 10000",
		`{"allOf":[{"anyOf":[` + many(20, `{"const":%d,"x-n":%d}`, ",") + `]},{"anyOf":[` + many(20, `{"const":%d,"x-n":%d}`, ",") + `]}]}`:                         "limit of 256",
		`{"properties":{` + many(200, `"p%d":{"pattern":"\\pL{%d}"}`, ",") + `}}`:                                                                                   "limit of 160000 nodes",
		`{"description":"` + strings.Repeat("x", 256<<10) + `"}`:                                                                                                    "limit of 262144",
		`{"$ref":"#/$defs/a0","$defs":{` + many(300, `"a%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/a%[2]d"}},"required":["x"]}`, ",") + `,"a300":{}}}`: "nests deeper than the limit of 256",
	}
}

func TestHostileSchemas(t *testing.T) {
	v := bytesVocabulary()
	for schema, want := range hostileSchemas() {
		g, err := grammar.CompileJSONSchema([]byte(schema), grammar.Options{})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		explore(t, g, v, 1)
	}
}

func TestHostileGrammars(t *testing.T) {
	v := bytesVocabulary("aaaa", "aaaaaaaa", "abab")
	for src, want := range map[string]string{
		"root ::= \"a\" | \"a\" root root | \"b\" root":                                                              "",
		"root ::= " + strings.Repeat(`"a"|`, 40_000) + `"b"`:                                                         "",
		"root ::= " + strings.Repeat("(", 90) + `"a"*` + strings.Repeat(` "b"* "c"? )*`, 90):                         "",
		"root ::= " + strings.Repeat("(", 90) + `"a"` + strings.Repeat(` "b"?){2,9}`, 90):                            "limit of 160000 nodes",
		"root ::= " + strings.Repeat("(", 101) + `"a"` + strings.Repeat(`)`, 101):                                    "limit of 100",
		"root ::= (((.{0,99}){0,99}){0,99}){0,99}":                                                                   "",
		"root ::= (((\"a\" | \"b\" | \"ab\" | a | \"a\" a){1,99} \"a\"?){1,99})*\na ::= \"a\" a \"b\" | \"a\"{1,50}": "",
	} {
		g, err := grammar.CompileEBNF(src, grammar.Options{})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		explore(t, g, v, 1)
	}
}
