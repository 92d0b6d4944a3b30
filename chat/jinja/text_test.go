package jinja_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/jinja"
	"pgregory.net/rapid"
)

// marked reports whether byte i of t is a client's.
func marked(t jinja.Text, i int) bool {
	for _, s := range t.ClientSpans() {
		if i >= s.Start && i < s.End {
			return true
		}
	}
	return false
}

// TestOriginSurvives renders expressions whose client strings are Greek and whose
// own text is ASCII: a byte must be marked exactly if its letter is Greek.
func TestOriginSurvives(t *testing.T) {
	expressions := []string{
		"{{ x }}", "A{{ x }}B", "{{ 'A' + x + 'B' }}", "{{ 'A' ~ x ~ y }}", "{{ x * 3 }}",
		"{{ x[1:] }}", "{{ x[:-1] }}", "{{ x[::-1] }}", "{{ x[::2] }}", "{{ ('A' ~ x ~ 'B' ~ y)[1:4] }}", "{{ x[0] }}{{ x[-1] }}",
		"{{ x | upper }}", "{{ (x ~ 'a') | title }}", "{{ x.capitalize() }}", "{{ x.swapcase() }}",
		"{{ ('A ' ~ x ~ ' ') | trim }}", "{{ x.strip('α') }}", "{{ x.lstrip('αβ') }}|",
		"{{ x.split('β') | join('-') }}", "{{ x.replace('α', 'A') }}", "{{ 'AxA'.replace('x', x) }}", "{{ x.replace('', '-') }}", "{{ x | replace(y, 'Q', 1) }}",
		"{{ x.partition('β')[2] }}{{ x.rsplit('β', 1)[0] }}", "{{ [x, y] | join(', ') }}", "{{ ('A' ~ x).join(['P', 'Q', 'R']) }}",
		"{{ [x, 'A'] }}", "{{ {'K': x} }}", "{{ {'K': [x, {'A': y}]} | tojson }}", "{{ {'K': x} | tojson(indent=2) }}", "{{ {x: 1} | tojson }}",
		"{{ 'A%sB' % x }}", "{{ '%5s|%-5s' % (x, y) }}", "{{ '{}A{}'.format(x, y) }}", "{{ x.center(9, '*') }}", "{{ x | truncate(3, true, '...', 0) }}",
		"{{ ('A\n' ~ x) | indent(2) }}", "{{ x | e }}", "{{ x | list | reverse | join('.') }}", "{% for c in x %}{{ c }};{% endfor %}",
		"{% set b %}A{{ x }}{% endset %}{{ b }}", "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) }}", "{% filter upper %}a{{ x }}{% endfilter %}",
		"{% set ns = namespace(o='') %}{% for c in x %}{% set ns.o = c ~ 'A' ~ ns.o %}{% endfor %}{{ ns.o }}",
		"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{{ d }}", "{{ d | tojson }}", "{{ d | dictsort | list }}", "{{ d.keys() | list }}",
		"{{ (x ~ 'AB') | wordcount }}{{ x | length }}{{ x.find('β') }}{{ x is string }}", "{{ [x, y] | sort | list }}", "{{ [y, x] | unique | map('upper') | join }}",
	}
	greek := rapid.StringOfN(rapid.SampledFrom([]rune("αβγ")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		vars, d := &jinja.Dict{}, &jinja.Dict{}
		x, y := greek.Draw(t, "x"), greek.Draw(t, "y")
		vars.Set("x", jinja.Client(x))
		vars.Set("y", jinja.Client(y))
		d.Set("K", jinja.Client(x))
		vars.Set("d", d)
		for _, source := range expressions {
			tmpl, err := jinja.Parse(source)
			require.NoError(t, err)
			out, err := tmpl.Render(vars, limits())
			require.NoError(t, err, source)
			for i, c := range out.String() {
				require.Equal(t, strings.ContainsRune("αβγΑΒΓ", c), marked(out, i), "%s: byte %d of %q", source, i, out.String())
			}
		}
	})
}

func TestTextSlice(t *testing.T) {
	tmpl, err := jinja.Parse("AA{{ x }}BB{{ x }}CC")
	require.NoError(t, err)
	vars := &jinja.Dict{}
	vars.Set("x", jinja.Client("xyz"))
	text, err := tmpl.Render(vars, limits())
	require.NoError(t, err)
	whole := text.String()
	for i := range len(whole) + 1 {
		for j := i; j <= len(whole); j++ {
			part := text.Slice(i, j)
			require.Equal(t, whole[i:j], part.String())
			for k := i; k < j; k++ {
				require.Equal(t, marked(text, k), marked(part, k-i))
			}
		}
	}
}

func TestDecodeJSON(t *testing.T) {
	v, err := jinja.NewDecoder(9).Decode([]byte(`{"z": 1, "a": [1.0, "x", null, true], "z": 2, "n": 123456789012345678901234567890}`), jinja.FromClient)
	require.NoError(t, err)
	d := v.(*jinja.Dict)
	var keys []string
	d.Each(func(name string, _ jinja.Value) { keys = append(keys, name) })
	require.Equal(t, []string{"z", "a", "n"}, keys)
	z, _ := d.Get("z")
	require.Equal(t, int64(2), z)
	n, _ := d.Get("n")
	require.Equal(t, jinja.Number("123456789012345678901234567890"), n)

	for _, bad := range []string{"", "{", "[1,", "{\"a\":}", "1 2", "nul", strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat("9", 5000)} {
		_, err := jinja.NewDecoder(1000).Decode([]byte(bad), jinja.FromClient)
		require.Error(t, err, bad)
	}
	decoder := jinja.NewDecoder(4)
	for range 2 {
		_, err = decoder.Decode([]byte(`{"a":null}`), jinja.FromClient)
		require.NoError(t, err)
	}
	_, err = decoder.Decode([]byte("1"), jinja.FromClient)
	require.ErrorContains(t, err, "more than 4 values")
}

// FuzzDecode compares with encoding/json.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e3,"x\ny\u00e9\ud83d\ude00",{}],"b":{"c":[[],null,true,false]},"a":0}`, ` [ "\ud800" , "a\\\"" ,{ "k" : 1 } ] `, "\"\xff\"", "1e400", "-0",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want any
		ok := json.Unmarshal(data, &want) == nil
		got, err := jinja.NewDecoder(100).Decode(data, jinja.FromClient)
		if err != nil {
			return
		}
		if !ok { // of the numbers, encoding/json refuses those that are out of range
			require.True(t, json.Valid(data))
			return
		}
		require.Equal(t, want, plain(got))
	})
}

// plain turns a decoded value into what encoding/json makes of the same text.
func plain(v jinja.Value) any {
	switch v := v.(type) {
	case jinja.Text:
		return v.String()
	case int64:
		return float64(v)
	case jinja.Number:
		f, _ := strconv.ParseFloat(string(v), 64)
		return f
	case *jinja.List:
		out := []any{}
		for _, item := range v.Items {
			out = append(out, plain(item))
		}
		return out
	case *jinja.Dict:
		out := map[string]any{}
		v.Each(func(name string, item jinja.Value) { out[name] = plain(item) })
		return out
	}
	return v
}

// TestDict compares with a plain map and a list of keys.
func TestDict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &jinja.Dict{}
		want, order := map[string]int64{}, []string{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := rapid.StringOfN(rapid.SampledFrom([]rune("abcd")), 1, 2, -1).Draw(t, "key")
			if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
				d.Delete(key)
				delete(want, key)
				order = slices.DeleteFunc(order, func(k string) bool { return k == key })
				continue
			}
			v := rapid.Int64().Draw(t, "v")
			d.Set(key, v)
			if _, known := want[key]; !known {
				order = append(order, key)
			}
			want[key] = v
		}
		require.Equal(t, len(want), d.Len())
		got := []string{}
		d.Each(func(name string, v jinja.Value) {
			got = append(got, name)
			require.Equal(t, want[name], v)
			found, ok := d.Get(name)
			require.True(t, ok)
			require.Equal(t, v, found)
		})
		require.Equal(t, order, got)
	})
}

func TestLoopsOverContent(t *testing.T) {
	var chain strings.Builder
	for i := 50_000; i > 0; i-- {
		fmt.Fprintf(&chain, "{%%set a%d=a%d%%}", i, i-1)
	}
	for source, want := range map[string]bool{
		"{% for m in messages %}{{ m.content }}{% endfor %}":                                                                            false,
		"{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}":                                                       true,
		"{% for m in messages %}{% for c in m['content'] | list %}{% endfor %}{% endfor %}":                                             true,
		"{% set l = messages[1:] %}{% for m in l %}{% if m %}{% for c in m.content %}{% endfor %}{% endif %}{% endfor %}":               true,
		"{% set a0 = messages %}" + chain.String() + "{% for c in a50000.content %}{% endfor %}":                                        true,
		"{% set m = messages[0] %}{% for c in m.content %}{% endfor %}":                                                                 true,
		"{% macro f(m) %}{% for c in m.content %}{% endfor %}{% endmacro %}":                                                            false,
		"{% for m in other %}{% for c in m.content %}{% endfor %}{% endfor %}":                                                          false,
		"{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}":                                                    false,
		"{% set messages = messages %}{% for m in messages if m %}{% else %}{% for c in messages['content'] %}{% endfor %}{% endfor %}": true,
	} {
		tmpl, err := jinja.Parse(source)
		require.NoError(t, err)
		require.Equal(t, want, tmpl.LoopsOverContent(), source)
	}
}
