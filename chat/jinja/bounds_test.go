package jinja_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/jinja"
)

func TestHostileTemplatesAreCut(t *testing.T) {
	tests := map[string]struct{ source, says string }{
		"nested loops":        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
		"growing string":      {"{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "grows past"},
		"long output":         {"{% for a in range(9999) %}{% for b in range(9999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}", "grows past"},
		"many strings":        {"{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = ns.x + ['a' * 100000] %}{% endfor %}", "bytes of text"},
		"growing list":        {"{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "stopped after"},
		"huge repeat":         {"{{ 'ab' * 9223372036854775807 }}", "grows past"},
		"huge list repeat":    {"{{ [1] * 9223372036854775807 }}", "stopped after"},
		"huge pad":            {"{{ 'a' | center(2147483647) }}", "grows past"},
		"huge range":          {"{{ range(10 ** 18) }}", "Range too big"},
		"range at the edge":   {"{{ range(9223372036854775800, 9223372036854775807, 100000) | length }}{{ 1 / 0 }}", "division"},
		"endless macro":       {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper"},
		"mutual macros":       {"{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper"},
		"endless caller":      {"{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}", "nests deeper"},
		"endless loop call":   {"{% set l = [1] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}", "nests deeper"},
		"nested value":        {"{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}", "nest deeper"},
		"nested compare":      {"{% set a = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% endfor %}{{ a.x == a.y }}", "nest deeper"},
		"namespace in itself": {"{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "nest deeper"},
		"long operator chain": {"{{ 1" + strings.Repeat(" + 1", 100_000) + " }}", "nests deeper"},
		"power":               {"{{ 10 ** 400 }}", "out of range"},
		"overflow":            {"{{ 9223372036854775807 + 1 }}", "out of range"},
		"negate overflow":     {"{{ -(-9223372036854775807 - 1) }}", "out of range"},
		"long strip set":      {"{{ ('a' * 1000000).strip('b' * 1000000) }}", "bytes of text"},
		"folded copies":       {"{{ (['A' * 1000000] * 1000) | sort }}", "bytes of text"},
		"long path":           {"{{ range(90000) | map(attribute='a.' * 100000, default=0) | list }}", "steps"},
		"many sort keys":      {"{{ [1] | sort(attribute=',' * 1000000) }}", "stopped after"},
		"long date format":    {"{{ strftime_now('%c' * 500000) }}", "grows past"},
		"divide overflow":     {"{{ (-9223372036854775807 - 1) // -1 }}", "out of range"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tmpl, err := jinja.Parse(tt.source)
			require.NoError(t, err)
			lim := limits()
			lim.MaxSteps = 1 << 20
			_, err = tmpl.Render(&jinja.Dict{}, lim)
			var e *jinja.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, tt.says)
			require.Positive(t, e.Line)
		})
	}
}

func TestTimeIsBounded(t *testing.T) {
	tmpl, err := jinja.Parse("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
	require.NoError(t, err)
	lim := limits()
	lim.MaxSteps, lim.Timeout = 1<<60, time.Nanosecond
	_, err = tmpl.Render(&jinja.Dict{}, lim)
	require.ErrorContains(t, err, "stopped after 1ns")
}

// What is quadratic in one of these lengths takes minutes.
func TestLongInputsTakeLinearTime(t *testing.T) {
	vars, list := &jinja.Dict{}, jinja.NewList()
	for i := range 150_000 {
		vars.Set(fmt.Sprint("k", i), int64(i))
		list.Items = append(list.Items, jinja.Client("a"))
	}
	vars.Set("l", list)
	lim := limits()
	lim.MaxBytes = 1 << 30
	for name, tt := range map[string]struct{ source, want string }{
		"variables":        {"{{ k149999 }}", "149999"},
		"string literals":  {"{{ (" + strings.Repeat("'a'", 150_000) + ") | length }}", "150000"},
		"dotted name":      {"{{ 1 is not a" + strings.Repeat(".a", 200_000) + " if false }}", ""},
		"pieces replaced":  {"{{ l | join('-') | replace('-', '+') | length }}", "299999"},
		"pieces split":     {"{{ (l | join('-')).split('-') | length }}", "150000"},
		"pieces by blanks": {"{{ (l | join(' ')).split() | length }}", "150000"},
		"lines":            {"{{ (l | join('\n')).splitlines() | length }}", "150000"},
		"fields":           {"{{ (l | join('{{')).format() | length }}", "299999"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := jinja.Parse(tt.source)
			require.NoError(t, err)
			out, err := tmpl.Render(vars, lim)
			require.NoError(t, err)
			require.Equal(t, tt.want, out.String())
		})
	}
}

func TestHostileSourceIsRefused(t *testing.T) {
	for name, source := range map[string]string{
		"brackets":   "{{ " + strings.Repeat("[", 100_000),
		"parens":     "{{ " + strings.Repeat("(", 100_000),
		"dicts":      "{{ " + strings.Repeat("{1:", 100_000),
		"signs":      "{{ " + strings.Repeat("-", 100_000) + "1 }}",
		"nots":       "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"elses":      "{{ 1" + strings.Repeat(" if 1 else 1", 10_000) + " }}",
		"blocks":     strings.Repeat("{% if 1 %}", 10_000),
		"targets":    "{% set " + strings.Repeat("(", 100_000),
		"calls":      "{{ " + strings.Repeat("f(", 100_000),
		"subscripts": "{{ " + strings.Repeat("x[", 100_000),
		"too large":  strings.Repeat("x", jinja.MaxSource+1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jinja.Parse(source)
			require.Error(t, err)
		})
	}
}

func TestSyntaxErrorsNameTheLine(t *testing.T) {
	_, err := jinja.Parse("a\nb\n{% if x %}\n{{ 1 + }}\n{% endif %}")
	require.EqualError(t, err, "line 4: unexpected '}}'")
	_, err = jinja.Parse("a\n{{ x\n")
	require.ErrorContains(t, err, "line 2: a tag is not closed")
}

func TestRuntimeErrorsNameTheLine(t *testing.T) {
	tmpl, err := jinja.Parse("a\n{% for x in [1] %}\n  {{ nope.x }}\n{% endfor %}")
	require.NoError(t, err)
	_, err = tmpl.Render(&jinja.Dict{}, limits())
	require.EqualError(t, err, "line 3: 'nope' is undefined")
}

func TestConcurrentRenders(t *testing.T) {
	g, vars := load(t, "golden.json")
	var wg sync.WaitGroup
	for _, c := range g.Cases {
		if c.Output == nil {
			continue
		}
		tmpl, err := jinja.Parse(c.Template)
		require.NoError(t, err)
		for range 4 {
			wg.Go(func() {
				out, err := tmpl.Render(vars, limits())
				if err != nil || out.String() != *c.Output {
					t.Errorf("%s: %v", c.Template, err)
				}
			})
		}
	}
	wg.Wait()
}

func FuzzTemplate(f *testing.F) {
	g, vars := load(f, "golden.json")
	for _, c := range g.Cases {
		f.Add(c.Template)
	}
	f.Add("{% macro f(a) %}{{ f(a ~ a) }}{% endmacro %}{{ f('x') }}")
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := jinja.Parse(source)
		if err != nil {
			var e *jinja.Error
			require.ErrorAs(t, err, &e)
			return
		}
		tmpl.LoopsOverContent()
		lim := limits()
		lim.MaxOutput, lim.MaxBytes, lim.MaxSteps = 1<<14, 1<<20, 20_000
		out, err := tmpl.Render(vars, lim)
		if err != nil {
			var e *jinja.Error
			require.ErrorAs(t, err, &e)
			return
		}
		require.LessOrEqual(t, len(out.String()), lim.MaxOutput)
		last := 0
		for i, s := range out.ClientSpans() {
			require.True(t, s.Start < s.End && s.End <= len(out.String()) && (i == 0 || s.Start > last))
			last = s.End
		}
	})
}
