package grammar_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

var patterns = []string{
	`a`, `abc|abd|b`, `a*`, `(a|b)*c`, `[a-c]{2,4}`, `a{3}`, `(ab?){2,30}`, `^a+$`, `^(a|b)$|^c`, `(?i)aBc`, `[^a]`, `.`, `.*`, `a.c`,
	`(?s).`, `é+`, `[à-ü]{1,3}`, `\d{1,3}(\.\d{1,3}){3}`, `\w+@\w+\.com`, `(a*)*b`, `(a?){3,40}`, `(a|b|ab)*c{0,60}`, `(a{2,3}){2,20}`,
	`\pL\pN?`, `[^\pL]`, `()`, `a||b`, `(?:a*b*)*`, `(a|)(b|)(c|)`, `[\x{10000}-\x{10ffff}]a`, `\x{7f}|\x{80}|\x{7ff}|\x{800}|\x{ffff}`,
	`(a+|b+){0,50}c`, `[a-z]+?x`, `\Aab\z`, `(?P<n>a)b`, `[[:alpha:]]{0,40}z`, `((a{1,30}b?){1,30}c)*`, `\u0061\u00e9`, `\s\S\S`,
}

// TestRegexMatchesLikeGo compares with the standard library on random strings,
// and on strings that mostly match.
func TestRegexMatchesLikeGo(t *testing.T) {
	v := bytesVocabulary("ab", "abc", "aa", "\xc3", "\xa9a", "11", ".1")
	for _, p := range patterns {
		t.Run(p, func(t *testing.T) {
			g, err := grammar.CompileRegex(p, grammar.Options{})
			require.NoError(t, err)
			std := regexp.MustCompile(`^(?:` + regexp.MustCompile(`\\u(....)`).ReplaceAllString(p, `\x{$1}`) + `)$`)
			if p == `^(a|b)$|^c` {
				std = regexp.MustCompile(`^(?:a|b|c)$`)
			}
			rapid.Check(t, func(rt *rapid.T) {
				texts := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("aabbccx1.é\n@zAB ")), 0, 40, -1), rapid.StringN(0, 4, -1))
				if !strings.ContainsAny(p, `^$`) && !strings.Contains(p, `\A`) {
					texts = rapid.OneOf(texts, rapid.StringMatching(std.String()[4:len(std.String())-2]))
				}
				s := texts.Draw(rt, "s")
				require.Equal(t, std.MatchString(s), accepts(t, g.NewMatcher(v), v, s), "%q", s)
			})
			text := walk(t, g, v, 7)
			require.True(t, std.MatchString(text), "%q", text)
		})
	}
}

func TestRegexRefused(t *testing.T) {
	for p, part := range map[string]string{
		`([`: `missing closing ]`, `a\b`: `\b`, `(?=a)`: `invalid`, `a^b`: `\A`, `a{1,2000}`: `invalid repeat count`, `(a`: `missing closing )`,
		`(^a)*`: `\A`, `\1`: `invalid escape`, `(?m)^a`: `(?m`, `[^\x{0}-\x{10ffff}]`: `no text`,
	} {
		_, err := grammar.CompileRegex(p, grammar.Options{Param: "structured_outputs", Path: "structured_outputs.regex"})
		var e *infer.Error
		require.True(t, errors.As(err, &e), p)
		require.Equal(t, infer.CodeInvalid, e.Code)
		require.Equal(t, "structured_outputs", e.Param)
		require.Contains(t, e.Message, part, p)
		require.Contains(t, e.Message, "structured_outputs.regex: ", p)
	}
}

func TestEBNF(t *testing.T) {
	v := bytesVocabulary("((", "))", "()", "+1", "12")
	g, err := grammar.CompileEBNF(`# arithmetic
root ::= expr
expr ::= term (op term)*   # right side
op   ::= [-+*/] | "\x25"
term ::= number
  | "(" expr ")"
number ::= "0" | [1-9] [0-9]{0,40}
`, grammar.Options{})
	require.NoError(t, err)
	for text, want := range map[string]bool{
		"1": true, "1+2": true, "((1))": true, "(1+(20*3))-0%7": true, "01": false, "(1": false, "": false, "1+": false, "())": false,
		"1234567890123456789012345678901234567890": true, "123456789012345678901234567890123456789012": false,
	} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
	g, err = grammar.CompileEBNF(`root ::= "a" root "b" | ""`, grammar.Options{})
	require.NoError(t, err)
	for text, want := range map[string]bool{"": true, "ab": true, "aabb": true, "aab": false, "abb": false} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
}

// TestEBNFOfJSON is written like the grammars that come with llama.cpp.
func TestEBNFOfJSON(t *testing.T) {
	g, err := grammar.CompileEBNF(`root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`, grammar.Options{})
	require.NoError(t, err)
	v := jsonVocabulary()
	for text, want := range map[string]bool{
		"{}": true, "{\n  \"a\": [1, 2.5e3,\n\ttrue] }": true, "{\"é\\n\\u00e9\":null}": true, "[]": false, "{\"a\":1,}": false, "{\"a\":01}": false,
	} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
	for seed := range uint64(20) {
		text := walk(t, g, v, seed)
		require.True(t, json.Valid([]byte(text)), text)
	}
}

func TestEBNFRefused(t *testing.T) {
	for src, part := range map[string]string{
		``: "no rule named root", `root ::= a`: `rule "a" is not defined`, "root ::= \"a\"\nroot ::= \"b\"": "line 2: rule \"root\" is defined twice",
		`root ::= root "a" | "b"`: "left recursion", "root ::= e root | \"b\"\ne ::= \"\" | \"a\"": "left recursion", `root ::= "a`: "not closed",
		`root ::= [a`: "not closed", `root ::= (a`: `")" is missing`, `root = a`: `"::="`, `root ::= "a"{2,1}`: "allows nothing",
		`root ::= "a"{9999999}`: "limit of 1048576", `root ::= [z-a]`: "ends before", `root ::= "\q"`: `escape \q`, `root ::= "a" root`: "no text can ever",
		`root ::= "a" ) "b"`: "not expected", `root ::= "\ud800"`: "is not a character", `::= "a"`: "name is missing",
	} {
		_, err := grammar.CompileEBNF(src, grammar.Options{Path: "g"})
		var e *infer.Error
		require.True(t, errors.As(err, &e), src)
		require.Equal(t, infer.CodeInvalid, e.Code)
		require.Contains(t, e.Message, part, src)
	}
}
