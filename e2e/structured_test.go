//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// schemaFormat is a response_format of a schema given as JSON.
func schemaFormat(schema string) obj {
	return obj{"type": "json_schema", "json_schema": obj{"name": "f", "strict": true, "schema": json.RawMessage(schema)}}
}

// TestO41UnusableSchemas: 400 before any token, never an answer without constraint.
func TestO41UnusableSchemas(t *testing.T) {
	s := serve(t)
	for schema, place := range map[string]string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/nope"}},"required":["a"]}`: "#/$defs/nope",
		`{"type":"string","pattern":"(["}`:                                              "pattern",
		`{"type":"array","items":{"type":"string","pattern":"a{2000000}"}}`:             "/items",
		`{"type":"object","required":["a"],"additionalProperties":false}`:               "required",
		`{"enum":[]}`:                                "enum",
		`{"type":"nonsense"}`:                        "nonsense",
		`{"type":"integer","minimum":"3"}`:           "minimum",
		`{"type":"array","minItems":3,"maxItems":2}`: "minItems",
		`{"$ref":"https://example.com/x.json"}`:      "example.com",
		`{"properties":7}`:                           "properties",
		`[1]`:                                        "schema",
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
			fields := obj{"messages": user("x"), "max_tokens": 40, "response_format": schemaFormat(schema)}
			if path == "/v1/completions" {
				fields = obj{"prompt": "x", "max_tokens": 40, "response_format": schemaFormat(schema)}
			}
			for _, stream := range []bool{false, true} {
				e := s.refused(http.StatusBadRequest, path, body(with(fields, obj{"stream": stream})))
				require.Equal(t, "response_format", e["param"], schema)
				require.Contains(t, e["message"], place, schema)
			}
		}
	}
	for _, format := range []obj{{"type": "json_schema"}, {"type": "xml"}, {"type": 3}, {}} {
		e := s.refused(http.StatusBadRequest, "/v1/chat/completions", body(obj{"messages": user("x"), "response_format": format}))
		require.Equal(t, "response_format", e["param"])
	}
	o, _ := s.chat(obj{"messages": user("What is the capital of France?"), "temperature": 0})
	require.Contains(t, content(o, 0), "Paris", "the server is alive")
}

// TestO42KeywordsAreNamed: a keyword that is not enforced is the client's error by
// name; annotations are no constraint and always fine.
func TestO42KeywordsAreNamed(t *testing.T) {
	s := serve(t)
	for _, keyword := range []string{
		`"unevaluatedProperties":false`, `"uniqueItems":true`, `"contentEncoding":"base64"`, `"dependentRequired":{"a":["b"]}`, `"if":{}`, `"not":{"required":["b"]}`,
		`"contains":{}`, `"propertyNames":{"maxLength":3}`,
	} {
		name := strings.Trim(strings.SplitN(keyword, ":", 2)[0], `"`)
		r := s.do("POST", "/v1/chat/completions", body(obj{"messages": user("x"), "max_tokens": 60, "response_format": schemaFormat(
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` + keyword + `}`)}))
		if r.Status == http.StatusOK {
			continue // it is enforced, or holds for every value that this schema allows
		}
		require.Equal(t, http.StatusBadRequest, r.Status, "%s", r.Body)
		e := s.parse(r.Body)["error"].(obj)
		require.Equal(t, "response_format", e["param"])
		require.Contains(t, e["message"], name)
	}
	o, _ := s.chat(obj{"messages": user("x"), "max_tokens": 60, "response_format": schemaFormat(
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"T","description":"d","type":"object","properties":{"a":{"type":"string","maxLength":5,"default":"x","examples":["y"],"description":"d"}},"required":["a"],"additionalProperties":false,"$comment":"c"}`)})
	var v struct{ A *string }
	require.NoError(t, json.Unmarshal([]byte(content(o, 0)), &v))
	require.NotNil(t, v.A)
}

// TestStructuredOutputs: every form, streamed and not, alone and at once, gives what
// was asked for.
func TestStructuredOutputs(t *testing.T) {
	s := serve(t)
	forms := []struct {
		fields obj
		holds  func(text string) bool
	}{
		{obj{"response_format": obj{"type": "json_object"}}, func(text string) bool {
			var v map[string]any
			return json.Unmarshal([]byte(text), &v) == nil
		}},
		{obj{"response_format": schemaFormat(`{"type":"object","properties":{"x":{"enum":["né 😀 漢字"]}},"required":["x"],"additionalProperties":false}`)}, func(text string) bool {
			var v struct{ X string }
			return json.Unmarshal([]byte(text), &v) == nil && v.X == "né 😀 漢字"
		}},
		{obj{"response_format": schemaFormat(`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9},"kids":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/tree"}}},"required":["n"],"additionalProperties":false}}}`)}, func(text string) bool {
			var v struct{ N *int }
			return json.Unmarshal([]byte(text), &v) == nil && v.N != nil && *v.N < 10
		}},
		{obj{"structured_outputs": obj{"regex": `[A-F]{2}-\d{3}`}}, regexp.MustCompile(`^[A-F]{2}-\d{3}$`).MatchString},
		{obj{"structured_outputs": obj{"choice": []string{"yes", "no", "maybe so"}}}, regexp.MustCompile(`^(yes|no|maybe so)$`).MatchString},
		{obj{"structured_outputs": obj{"grammar": `root ::= "a" ("+" root)?`}}, regexp.MustCompile(`^a(\+a)*$`).MatchString},
	}
	var wg sync.WaitGroup
	for i, form := range forms {
		for seed := range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				fields := with(form.fields, obj{"messages": user("What is the capital of France?"), "max_tokens": 400, "temperature": 1, "seed": seed})
				o, _ := s.chat(fields)
				reason := choice(o, 0)["finish_reason"]
				if reason == "stop" {
					requireHolds(t, form.holds, i, content(o, 0))
				}
				e := s.stream("/v1/chat/completions", with(fields, obj{"stream": true}))
				if e.text(0) != content(o, 0) || e.finish(0) != reason {
					t.Errorf("form %d: streamed %q (%s), at once %q (%s)", i, e.text(0), e.finish(0), content(o, 0), reason)
				}
			}()
		}
	}
	wg.Wait()
}

func requireHolds(t *testing.T, holds func(string) bool, form int, text string) {
	if !holds(text) {
		t.Errorf("form %d gave %q", form, text)
	}
}
