package jinja_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/jinja"
)

// limits are generous bounds for tests of output.
func limits() jinja.Limits {
	return jinja.Limits{
		MaxOutput: 1 << 20, MaxBytes: 1 << 26, MaxSteps: 1 << 22, Timeout: time.Minute,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC) },
	}
}

type golden struct {
	Data  json.RawMessage
	Cases []struct {
		Template        string
		Output          *string
		Error           string
		SyntaxErrorLine int `json:"syntax_error_line"`
	}
}

func load(t testing.TB, name string) (golden, *jinja.Dict) {
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	v, err := jinja.NewDecoder(1000).Decode(g.Data, jinja.FromClient)
	require.NoError(t, err)
	return g, v.(*jinja.Dict)
}

// TestGolden compares with Python's Jinja2; tools/chat/golden.py made the file.
func TestGolden(t *testing.T) {
	g, vars := load(t, "golden.json")
	require.NotEmpty(t, g.Cases)
	for _, c := range g.Cases {
		t.Run("", func(t *testing.T) {
			tmpl, err := jinja.Parse(c.Template)
			if c.SyntaxErrorLine > 0 && err != nil {
				var e *jinja.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, c.SyntaxErrorLine, e.Line, c.Template)
				return
			}
			var out jinja.Text
			if err == nil {
				out, err = tmpl.Render(vars, limits())
			}
			if c.Output == nil {
				require.Error(t, err, c.Template)
				return
			}
			require.NoError(t, err, c.Template)
			require.Equal(t, *c.Output, out.String(), c.Template)
		})
	}
}
