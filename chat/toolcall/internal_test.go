package toolcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// scans says whether text is one JSON value and white space.
func scans(text string) bool {
	s, ended := scanner{}, false
	for _, c := range []byte(text + " ") {
		if ended {
			if !isBlank(c) {
				return false
			}
			continue
		}
		switch s.step(c) {
		case bad:
			return false
		case done:
			ended = true
		case over:
			if !isBlank(c) {
				return false
			}
			ended = true
		}
	}
	return ended
}

func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	pieces := []string{"{", "}", "[", "]", ",", ":", `"`, `"a"`, `\`, `\u00e9`, `\u0`, `\n`, `\x`, "0", "12", "-", "+", ".", "e", "E", "true", "fals", "null", " ", "\n", "x", "é", "\xff"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces"), "")
		if strings.Contains(text, `"`) {
			text = strings.ReplaceAll(text, "\n", " ") // the scanner lets control characters in strings pass
		}
		require.Equal(t, json.Valid([]byte(text)), scans(text), "%q", text)
	})
	for _, text := range []string{
		"", " ", "0", "-0", "00", "01", "1.", ".5", "1.5e", "1.5e-", "1.5E+07 ", "-", "+1", "0.0", "0e1", "1e1.5", "tru", "truex", "nul", "[1,]", "[,1]", "[1 2]", "[1}", "{1:2}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`,
		`{"a":1 "b":2}`, `"\"`, `"\/\b\f\r\t"`, `"\u12G4"`, `"\x"`, `"\u"`, "[[[]]]", "[[]", "]", "{} {}", `{"a":{"b":[{}]}}`, "[1.5e3,-2,0]", "[-]", "[1.]", "{]",
	} {
		require.Equal(t, json.Valid([]byte(text)), scans(text), "%q", text)
	}
	deep := strings.Repeat("[", maxDepth)
	require.True(t, scans(deep+strings.Repeat("]", maxDepth)))
	require.False(t, scans("["+deep+strings.Repeat("]", maxDepth+1)))
}

func TestCoerce(t *testing.T) {
	for _, c := range []struct{ text, types, want string }{
		{"a", "string", `"a"`},
		{"1", "string", `"1"`},
		{"null", "string null", "null"},
		{"None", "null string", "null"},
		{"none", "string null", `"none"`},
		{"+12", "integer", "12"},
		{"-007", "integer", "-7"},
		{"000", "integer", "0"},
		{"-", "integer", `"-"`},
		{"+-1", "integer", `"+-1"`},
		{"123456789012345678901234567890", "integer", "123456789012345678901234567890"},
		{"1.0", "integer", "1.0"},
		{"1e3", "number", "1e3"},
		{" .5\n", "number", "0.5"},
		{"NaN", "number", `"NaN"`},
		{"1e999", "number", "1e999"},
		{"3", "number integer", "3"},
		{"1", "boolean", "true"},
		{"FALSE", "boolean", "false"},
		{"0", "boolean", "false"},
		{"maybe", "boolean", `"maybe"`},
		{`{"a": 1}`, "object", `{"a": 1}`},
		{"{'a': (1, 'x')} ", "object", `{"a": [1, "x"]}`},
		{"[1, 2", "array", `"[1, 2"`},
		{"[b'']", "array", `"[b'']"`},
		{"{} {", "object", `"{} {"`},
		{"{'a': 1} x", "object", `"{'a': 1} x"`},
		{"[1]", "object", "[1]"},
		{"", "object", `""`},
		{"", "integer", `""`},
		{"12", "integer string", "12"},
		{"\xe2a", "string", "\"\ufffda\""},
		{"a\nb\x02\x7f\xc3", "string", "\"a\\nb\\u0002\x7f\ufffd\""},
	} {
		got := string(coerce(c.text, strings.Fields(c.types)))
		require.Equal(t, c.want, got, "%q as %s", c.text, c.types)
		require.True(t, json.Valid([]byte(got)))
	}
}

func TestTypesOfParameters(t *testing.T) {
	p := parametersOf(&Tool{Parameters: json.RawMessage(`{"definitions":{"d":{"type":"list"},"loop":{"anyOf":[{"$ref":"#/definitions/loop"},{"$ref":"#/definitions/loop"},{"type":"dict"}]}},"properties":{
		"several":{"type":["integer","null",3]},"pair":{"type":["integer","null"]},"enum":{"enum":["a",1,2.5,true,null,[],{}]},"all":{"allOf":[{"type":"Int64"},{"oneOf":[{"type":"double"}]}]},
		"ref":{"$ref":"#/definitions/d"},"long":{"type":"text"},"loop":{"$ref":"#/definitions/loop"},"bool":{"type":"bool"},"odd":{"type":"date"},"text":{"type":" VARCHAR"},"any":true}}`)})
	for name, want := range map[string][]string{
		"several": {"string"}, "pair": {"integer", "null"}, "enum": {"string", "integer", "number", "boolean", "null", "array", "object"}, "all": {"integer", "number"},
		"ref": {"array"}, "long": {"string"}, "loop": {"object"}, "bool": {"boolean"}, "odd": {"string"}, "text": {"string"}, "any": {"string"}, "missing": {"string"},
	} {
		require.Equal(t, want, p.types(name), name)
	}
	require.Equal(t, []string{"string"}, parametersOf(nil).types("x"))
	require.Equal(t, []string{"string"}, parametersOf(&Tool{Parameters: json.RawMessage("true")}).types("x"))
}

func TestPythonLiterals(t *testing.T) {
	for text, want := range map[string]string{
		`['a', "b", '''c'd''', """e""f"""]`:         `["a", "b", "c'd", "e\"\"f"]`,
		`['', "", '''''', r'\d', R"\\", u'x']`:      `["", "", "", "\\d", "\\\\", "x"]`,
		`['\a\b\f\v\t\r\\\'\"\x41\7\101\1018\08']`:  `["\u0007\u0008\u000c\u000b\t\r\\'\"A\u0007AA8\u00008"]`,
		`['\uD83d\ude00\U0001f600\U00110000\ud8zz`:  "",
		`['\uD83d\ude00\U0001f600\U00110000\N{X}']`: `["\uD83d\ude00😀�\\N{X}"]`,
		"['a\\\nb\nc']": `["ab\nc"]`,
		`{'a': {1: 2, None: [], 1.5: {}}, True: (),}`:                              `{"a": {"1": 2, "null": [], "1.5": {}}, "true": []}`,
		`[0, -0, 1_0, 0x_fF, 0O17, -0b1, 1., .5, -.5e-3, 1.5E+3, 1.e2, 00.50, +1]`: `[0, -0, 10, 255, 15, -1, 1.0, 0.5, -0.5e-3, 1.5E+3, 1.0e2, 0.50, 1]`,
		"[1j]": "", "[0x]": "", "[_1]": "", "[1_]": "", "[1 2]": "", "[a]": "", "[-]": "", "[.]": "", "['\\xg']": "", "[f'']": "", "{[]: 1}": "", "{1}": "", "{1: }": "", "[1)": "", "[1,,2]": "", "[,]": "", "{'a' 1}": "", "[": "", "1": "", "[] x": "",
		"[" + strings.Repeat("1", maxName+1) + "]": "", strings.Repeat("[", maxDepth+1): "",
	} {
		got, ok := python(text)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, got, text)
			require.True(t, json.Valid([]byte(got)), got)
		}
	}
}
