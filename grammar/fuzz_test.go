package grammar_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

// explore walks a grammar for a while: no dead end, no token of the mask that
// is refused. It returns the text, and whether it is complete.
func explore(t require.TestingT, g *grammar.Grammar, v *grammar.Vocabulary, seed uint64) (text string, complete bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := g.NewMatcher(v)
	mask := make([]uint64, v.MaskWords())
	for n := range 120 {
		m.Mask(mask)
		ids := allowed(mask)
		require.NotEmpty(t, ids, "dead end after %q", text)
		token := ids[rng.IntN(len(ids))]
		if n > 30 {
			token = closing(v, ids, rng)
		}
		if err := m.Accept(token); err != nil {
			require.Contains(t, err.Error(), "ambiguous")
			return text, false
		}
		if int(token) == v.Size()-1 {
			return text, true
		}
		text += string(v.Bytes(token))
	}
	return text, false
}

func requireRefusal(t require.TestingT, err error) {
	var e *infer.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, infer.CodeInvalid, e.Code)
	require.True(t, utf8.ValidString(e.Message))
}

func FuzzJSONSchema(f *testing.F) {
	for _, s := range lines(f, "schemas.jsonl") {
		if len(s) < 300 {
			f.Add(s)
		}
	}
	v := jsonVocabulary()
	f.Fuzz(func(t *testing.T, schema []byte) {
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{Path: "s"})
		if err != nil {
			requireRefusal(t, err)
			return
		}
		text, complete := explore(t, g, v, 1)
		if !complete {
			return
		}
		require.True(t, json.Valid([]byte(text)), "%s\n%s", schema, text)
		// "nullable" is not JSON Schema's, and "$schema" may name another draft.
		if validate, err := tryValidator(schema); err == nil && !bytes.Contains(schema, []byte("nullable")) && !bytes.Contains(schema, []byte("$schema")) {
			require.NoError(t, validate(text), "%s\n%s", schema, text)
		}
	})
}

func FuzzRegex(f *testing.F) {
	for _, p := range patterns {
		f.Add(p)
	}
	v := bytesVocabulary("ab", "abc", "aa", "\xc3", "\xa9a", "11", ".1", "aaaaaaaa")
	f.Fuzz(func(t *testing.T, pattern string) {
		g, err := grammar.CompileRegex(pattern, grammar.Options{Path: "r"})
		if err != nil {
			requireRefusal(t, err)
			return
		}
		text, complete := explore(t, g, v, 1)
		std, err := regexp.Compile(`^(?:` + pattern + `)$`)
		if err != nil || !complete || strings.ContainsAny(pattern, `^$`) || strings.Contains(pattern, `\A`) || strings.Contains(pattern, `\z`) {
			return // \u is ours alone, and anchors mean each end of an alternative
		}
		require.True(t, std.MatchString(text), "%q %q", pattern, text)
	})
}

func FuzzEBNF(f *testing.F) {
	for _, s := range []string{
		"root ::= \"a\" | [b-d]+ root?", "root ::= (x y){1,3}\nx ::= \"a\"*\ny ::= . | [^\\n\\u00e9]{2,}", "# c\nroot ::= \"\" |\n \"b\" root \"c\"",
		"root ::= a b\na ::= \"x\" a | \"\"\nb ::= (a \"y\")*",
	} {
		f.Add(s)
	}
	v := bytesVocabulary("ab", "aa", "xx", "yx", "\xc3")
	f.Fuzz(func(t *testing.T, source string) {
		g, err := grammar.CompileEBNF(source, grammar.Options{Path: "g"})
		if err != nil {
			requireRefusal(t, err)
			return
		}
		explore(t, g, v, 1)
	})
}

func FuzzChoice(f *testing.F) {
	f.Add("yes", "no", "yesterday")
	f.Add("", "\x00", "é")
	v := bytesVocabulary("ye", "es", "te")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		g, err := grammar.CompileChoice([]string{a, b, c}, grammar.Options{Path: "c"})
		require.NoError(t, err)
		for _, text := range []string{a, b, c} {
			require.True(t, acceptsBytes(g, v, text))
		}
		if text, complete := explore(t, g, v, 1); complete {
			require.Contains(t, []string{a, b, c}, text)
		}
	})
}
