package grammar_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

func TestFrame(t *testing.T) {
	frame := grammar.Frame{
		Separator: "\n",
		Values: []grammar.FramedValue{
			{Prefix: "<c>\n{\"f\":", Suffix: "}\n</c>", Schema: []byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"$defs":{"n":{"type":"integer"}}}`)},
			{Prefix: "<c>\n{\"g\":", Suffix: "}\n</c>", Schema: []byte(`{"type":"object","properties":{"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"const":"x"}}}`)},
		},
	}
	v := bytesVocabulary()
	for text, want := range map[string][2]bool{ // with Max 0, with Max 1
		"":                             {},
		"<c>\n{\"f\":{\"a\":1}}\n</c>": {true, true},
		"<c>{\"f\":{\"a\":1}}</c>":     {true, true},
		"<c>{\"g\":{\"b\":\"x\"}}</c>": {true, true},
		"<c>{\"g\":{}}</c>":            {true, true},
		"<c>{\"f\":{}}</c>":            {},
		"<c>{\"f\":{\"b\":\"x\"}}</c>": {},
		"<c>{\"h\":{}}</c>":            {},
		"<c>{\"g\":{}}":                {},
		"<c>{\"g\":{}}</c>\n":          {},
		"<c>{\"g\":{}}</c>\n<c>{\"f\":{\"a\":-7}}</c>": {true, false},
	} {
		for i, most := range []int{0, 1} {
			frame.Max = most
			g, err := grammar.CompileFrame(frame, grammar.Options{})
			require.NoError(t, err)
			require.Equal(t, want[i], accepts(t, g.NewMatcher(v), v, text), "%q with at most %d", text, most)
		}
	}
}

func TestFrameRefused(t *testing.T) {
	_, err := grammar.CompileFrame(grammar.Frame{}, grammar.Options{Param: "tools"})
	require.ErrorContains(t, err, "no value")
	_, err = grammar.CompileFrame(grammar.Frame{Values: []grammar.FramedValue{{Schema: []byte(`{"type":"object"}`)}, {Schema: []byte(`{"$dynamicRef":"#x"}`), Param: "tools[1].function.parameters"}}},
		grammar.Options{Param: "tools"})
	var coded *infer.Error
	require.True(t, errors.As(err, &coded))
	require.Equal(t, "tools[1].function.parameters", coded.Param)
	require.Contains(t, coded.Message, "$dynamicRef")
}

func TestFrameThatNothingSatisfies(t *testing.T) {
	endless := grammar.FramedValue{Schema: []byte(`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`), Param: "tools[1].function.parameters"}
	for want, values := range map[string][]grammar.FramedValue{
		"tools[1].function.parameters": {endless},
		"tools":                        {endless, endless},
	} {
		_, err := grammar.CompileFrame(grammar.Frame{Values: values}, grammar.Options{Param: "tools"})
		require.ErrorContains(t, err, want+": no text can ever satisfy it")
	}
}

func TestFrameOrAnswer(t *testing.T) {
	frame := grammar.Frame{
		Values: []grammar.FramedValue{{Prefix: "<c>", Suffix: "</c>", Schema: []byte(`{"type":"integer"}`)}},
		Answer: &grammar.FramedValue{Schema: []byte(`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`)},
	}
	v := bytesVocabulary()
	g, err := grammar.CompileFrame(frame, grammar.Options{})
	require.NoError(t, err)
	for text, want := range map[string]bool{`<c>1</c>`: true, `<c>1</c><c>2</c>`: true, `{"a":true}`: true, `{"a":1}`: false, `{"a":true}<c>1</c>`: false, `<c>{"a":true}</c>`: false, ``: false} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
	frame.Answer = &grammar.FramedValue{Schema: []byte(`{"$dynamicRef":"#x"}`), Param: "response_format", Path: "response_format.json_schema.schema"}
	_, err = grammar.CompileFrame(frame, grammar.Options{Param: "tools"})
	require.ErrorContains(t, err, "response_format.json_schema.schema: ")
}
