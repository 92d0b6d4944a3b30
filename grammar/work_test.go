package grammar_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

type source func(n int) error

func schemaSource(make func(n int) string) source {
	return func(n int) error {
		_, err := grammar.CompileJSONSchema([]byte(make(n)), grammar.Options{})
		return err
	}
}

func ebnfSource(make func(n int) string) source {
	return func(n int) error {
		_, err := grammar.CompileEBNF(make(n), grammar.Options{})
		return err
	}
}

// longSources are accepted at any size that matters.
var longSources = map[string]source{
	"const":         schemaSource(func(n int) string { return `{"const":"` + strings.Repeat("x", n) + `"}` }),
	"const, quotes": schemaSource(func(n int) string { return `{"const":"` + strings.Repeat(`\"x`, n/3) + `"}` }),
	"const, lines":  schemaSource(func(n int) string { return `{"const":"` + strings.Repeat(`\n`, n/2) + `"}` }),
	"const, list":   schemaSource(func(n int) string { return `{"const":[` + strings.Repeat("1,", n/2) + `1]}` }),
	"const, deep": schemaSource(func(n int) string {
		return `{"const":` + strings.Repeat("[", 90) + strings.Repeat("1,", n/4) + "1" + strings.Repeat("]", 90) + `}`
	}),
	"enum":    schemaSource(func(n int) string { return `{"enum":[` + many(n/16, `"value <%d> %d"`, ",") + `]}` }),
	"numbers": schemaSource(func(n int) string { return `{"enum":[` + many(n/12, `1%d%de-3`, ",") + `]}` }),
	"two enums": schemaSource(func(n int) string {
		list := `{"enum":[` + many(n/16, `1%d%d`, ",") + `]}`
		return `{"allOf":[` + list + `,` + list + `]}`
	}),
	"enum and pattern": schemaSource(func(n int) string {
		return `{"pattern":"^[a-z]+[0-9]+$","enum":[` + many(n/16, `"v%d%d"`, ",") + `]}`
	}),
	"name":     schemaSource(func(n int) string { return `{"properties":{"` + strings.Repeat("x", n) + `":{}}}` }),
	"pattern":  schemaSource(func(n int) string { return `{"pattern":"^` + strings.Repeat("xy", n/2) + `$"}` }),
	"literal":  ebnfSource(func(n int) string { return `root::="` + strings.Repeat("x", n) + `"` }),
	"literals": ebnfSource(func(n int) string { return "root::=" + strings.Repeat(`"a"`, n/3) }),
	"empties": ebnfSource(func(n int) string {
		return "root::=" + strings.Repeat(`"a"|`, n/8) + strings.Repeat(`""|`, n/6) + `"b"`
	}),
	"rules": ebnfSource(func(n int) string {
		return "root::=r0\n" + many(n/20, `r%d::="x"r%d`, "\n") + fmt.Sprintf("\nr%d::=\"y\"", n/20)
	}),
	"choices": func(n int) error {
		_, err := grammar.CompileChoice(strings.Split(many(n/24, "choice %d of %d", "|"), "|"), grammar.Options{})
		return err
	},
}

func allocated(t *testing.T, compile source, n int) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, compile(n))
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// Twice the source costs about twice as much, and no more.
func TestCompilingIsLinear(t *testing.T) {
	for name, compile := range longSources {
		t.Run(name, func(t *testing.T) {
			allocated(t, compile, 1_000) // what is made once
			small, large := allocated(t, compile, 12_000), allocated(t, compile, 48_000)
			require.Less(t, large/small, 6.5, "of four times the source")
		})
	}
}

// endlessSources would take seconds to minutes; they meet the limit of work.
var endlessSources = map[string]source{
	"bounds": schemaSource(func(n int) string {
		return `{"prefixItems":[` + many(n/70, `{"type":"number","minimum":-123456789.123456789%d,"maximum":987654321.987654321%d}`, ",") + `]}`
	}),
	"multiples": schemaSource(func(n int) string {
		return `{"prefixItems":[` + strings.Repeat(`{"type":"integer","multipleOf":397},`, n/36) + `{}]}`
	}),
	"classes":    schemaSource(func(n int) string { return `{"pattern":"` + strings.Repeat(`\\pL`, n/4) + `"}` }),
	"lookaheads": schemaSource(func(n int) string { return `{"pattern":"^` + strings.Repeat(`(?=a)`, n/5) + `"}` }),
	"values and a pattern": schemaSource(func(n int) string {
		return `{"pattern":"` + strings.Repeat("x?", n/4) + `","enum":[` + many(n/16, `"%d %d"`, ",") + `]}`
	}),
	"properties, merged": schemaSource(func(n int) string {
		return `{"$defs":{"a":{"properties":{` + many(900, `"%d-%d":{}`, ",") + `}}},"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, n/25) + `{}]}`
	}),
	"rules in zigzag": ebnfSource(func(n int) string {
		var b strings.Builder
		middle := n / 40
		b.WriteString("order::=r0")
		for i := range 2 * middle {
			fmt.Fprintf(&b, "|r%d", i+1)
		}
		b.WriteString("\n")
		for i := range 2*middle + 1 { // 0, 2m, 1, 2m-1, ... m
			next := 2*middle - i
			if i > middle {
				next++
			}
			if i != middle {
				fmt.Fprintf(&b, "r%d::=r%d\n", i, next)
			}
		}
		return b.String() + fmt.Sprintf("r%d::=\"x\"\nroot::=r0", middle)
	}),
	"ranges without case": func(n int) error {
		_, err := grammar.CompileRegex("(?i)"+strings.Repeat(`[a-\x{ffff}]`, n/13), grammar.Options{})
		return err
	},
	"optional parts, repeated": ebnfSource(func(n int) string { return "root::=(" + strings.Repeat(`"a"?`, n/4) + ")*" }),
	"classes of all letters": func(n int) error {
		_, err := grammar.CompileRegex(strings.Repeat(`[\pL]`, n/5), grammar.Options{})
		return err
	},
}

func TestWorkIsBounded(t *testing.T) {
	for name, compile := range endlessSources {
		require.Regexp(t, "units of work|limit of 160000 nodes|limit of 100000 steps|limit of 8$", compile(150_000), name)
	}
}

func TestCompilingIsGivenUp(t *testing.T) {
	enough := errors.New("enough")
	o := grammar.Options{Pause: func(spent int) error {
		if spent >= 200_000 {
			return enough
		}
		return nil
	}}
	_, err := grammar.CompileJSONSchema([]byte(`{"const":"`+strings.Repeat("x", 100_000)+`"}`), o)
	require.Same(t, enough, err)
	_, err = grammar.CompileRegex(strings.Repeat("x", 100_000), o)
	require.Same(t, enough, err)
	_, err = grammar.CompileEBNF(`root::="`+strings.Repeat("x", 100_000)+`"`, o)
	require.Same(t, enough, err)
}

// Values are the same if they are equal as JSON Schema has it, however they are written.
func TestEqualValues(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true}, {`100`, `1e2`, true}, {`0.5`, `5e-1`, true}, {`-0`, `0`, true}, {`10`, `1`, false}, {`-1`, `1`, false},
		{`"1"`, `1`, false}, {`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1}`, true}, {`[1,2]`, `[2,1]`, false}, {`["a","b"]`, `["ab"]`, false},
		{`null`, `false`, false}, {`1e999999999999`, `1e999999999998`, false},
	} {
		_, err := grammar.CompileJSONSchema([]byte(`{"allOf":[{"enum":[`+tc.a+`]},{"enum":[`+tc.b+`]}]}`), grammar.Options{})
		require.Equal(t, tc.same, err == nil, "%s %s: %v", tc.a, tc.b, err)
	}
}
