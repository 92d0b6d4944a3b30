package grammar

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

// list joins n texts.
func list(n int, sep string, write func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = write(i)
	}
	return strings.Join(parts, sep)
}

func patternOf(p string) string { return `{"type":"string","pattern":"` + p + `"}` }

func objects(n, m int, value string) string {
	return `{"properties":{` + list(n, ",", func(i int) string {
		return fmt.Sprintf(`"o%d":{"properties":{%s}}`, i, list(m, ",", func(j int) string { return fmt.Sprintf(`"p%d":%s`, j, value) }))
	}) + `}}`
}

// costlySources were made to keep the compiler busy, with what is said of them.
func costlySources() map[string]string {
	rules := func(n int, format string) string {
		return list(n, "\n", func(i int) string { return fmt.Sprintf(format, i, i+1) })
	}
	names := list(500, " | ", func(i int) string { return fmt.Sprintf("r%d", i) })
	return map[string]string{
		patternOf("^" + strings.Repeat("(?=.*a.{12}b)", 8) + ".*$"):                                                          "limit of 3000 states",
		patternOf("^" + strings.Repeat("(?=.*a.{12}b)", 9) + ".*$"):                                                          "begins with 9 lookaheads, which is more than the limit of 8",
		patternOf("^" + strings.Repeat("(?=.*a.{12}b)", 19000) + ".*$"):                                                      "limit of 8",
		patternOf("^" + strings.Repeat("(?=.*x)", 30000)):                                                                    "limit of 8",
		patternOf("^" + strings.Repeat("(?=.*a.{900}b)", 8) + ".*$"):                                                         "limit of",
		patternOf("^" + strings.Repeat(`(?=.*\\pL.{12}\\pL)`, 8) + ".*$"):                                                    "limit of",
		`{"allOf":[` + list(9, ",", func(i int) string { return patternOf(fmt.Sprint(i)) }) + "," + patternOf("y") + `]}`:    "10 patterns, formats and lookaheads",
		`{"maxLength":2000,"pattern":"` + strings.Repeat("a?", 2000) + strings.Repeat("a", 2000) + `"}`:                      "limit of",
		patternOf(strings.Repeat("a?", 2000) + strings.Repeat("a", 2000)):                                                    "",
		"root ::= a0\n" + rules(60, "a%d ::= a%[2]d a%[2]d") + "\na60 ::= \"x\"":                                             "",
		`root ::= (("a"{1,1000}){1,1000}){1,1000}`:                                                                           "",
		objects(300, 20, `{"type":"integer"}`):                                                                               "limit of 20000000 units",
		objects(100, 20, `{"type":"integer"}`):                                                                               "",
		objects(200, 20, `{"type":"integer","minimum":-12345,"maximum":98765}`):                                              "",
		"root ::= " + list(1000, " | ", func(i int) string { return `"` + strings.Repeat("x", 200) + fmt.Sprint(i) + `y"` }): "limit of 160000 nodes",
		"root ::= " + names + "\n" + rules(500, `r%d ::= [a-z ]* "q%[2]d" root?`):                                            "",
	}
}

// The work that was counted and the memory that was taken stay within bounds,
// whether a source is compiled or refused.
func TestCostOfCompiling(t *testing.T) {
	prelude()
	for source, want := range costlySources() {
		var b *builder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := compile(Options{Param: "guide"}, func(made *builder) (*Grammar, error) {
			b = made
			if !strings.HasPrefix(source, "root") {
				e, bad := b.schemaExpr([]byte(source))
				if bad != nil {
					return nil, bad
				}
				return b.compileRule(e)
			}
			p := &ebnf{builder: b, text: source, rules: map[string]int{}, known: map[string]*expr{}}
			if bad := p.parse(); bad != nil {
				return nil, bad
			}
			program, bad := p.build(p.rules["root"])
			if bad != nil {
				return nil, bad
			}
			return newGrammar(program, b.opts), nil
		})
		runtime.ReadMemStats(&after)
		require.Less(t, b.spent, maxWork+maxWork/4, short(source))
		require.LessOrEqual(t, b.steps, maxSteps+1, short(source))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(96<<20), short(source))
		if want != "" {
			require.ErrorContains(t, err, want)
			require.Equal(t, infer.CodeInvalid, infer.AsError(err).Code)
			continue
		}
		require.NoError(t, err, short(source))
		require.LessOrEqual(t, g.Size(), maxProgramBytes+defaultCacheBytes, short(source))
	}
}

// Numbers with the same bounds share their part of the machine.
func TestNumbersAreShared(t *testing.T) {
	number := `{"type":"number","minimum":-1.5,"exclusiveMaximum":12345}`
	size := func(n int) int {
		g, err := CompileJSONSchema([]byte(`{"prefixItems":[`+list(n, ",", func(int) string { return number })+`]}`), Options{CacheBytes: 1})
		require.NoError(t, err)
		return g.Size()
	}
	require.Less(t, size(51)-size(1), 50*1000)
}

// A grammar too ambiguous to follow ends its text with an error for the client.
func TestAmbiguousGrammars(t *testing.T) {
	var tokens [][]byte
	for c := byte('a'); c <= 'z'; c++ {
		tokens = append(tokens, []byte{c}, []byte(strings.Repeat(string(c), 8)))
		for d := byte('a'); d <= 'z'; d++ {
			tokens = append(tokens, []byte{c, d}, []byte{c, d, c}, []byte{c, d, d, c})
		}
	}
	v := NewVocabulary(tokens, VocabularyOptions{})
	for _, source := range []string{
		"root ::= " + strings.Repeat("([a-z] | [a-y]{2} | [b-z]{3}){0,50} ", 30) + `"!"`,
		"root ::= a \"!\"\na ::= [a-z] a? a? [a-y]? | [a-z] a",
		"root ::= (((.{0,99}){0,99}){0,99}){0,99}",
	} {
		g, err := CompileEBNF(source, Options{Param: "guided_grammar"})
		require.NoError(t, err)
		m := g.NewMatcher(v)
		mask := make([]uint64, v.MaskWords())
		for n := 0; err == nil && n < 20_000; n++ {
			before := m.work
			m.Mask(mask)
			require.Less(t, m.work-before, v.textWork()+10*v.walkLimit())
			err = m.Accept(0)
		}
		if err == nil {
			continue // cheap enough to go on for ever
		}
		e := infer.AsError(err)
		require.Equal(t, infer.CodeInvalid, e.Code, "%v", err)
		require.Equal(t, "guided_grammar", e.Param)
		require.Regexp(t, "guided_grammar: it is too ambiguous: .* the limit of [0-9]+", e.Message)
		t.Log(m.work, err)
	}
}
