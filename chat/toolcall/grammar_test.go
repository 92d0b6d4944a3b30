package toolcall_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/infer"
	"pgregory.net/rapid"
)

// jsonValue draws JSON text with odd characters, escapes and white space.
func jsonValue(t *rapid.T, depth int) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	str := func() string {
		var b strings.Builder
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			b.WriteString(rapid.SampledFrom([]string{"a", "é", "😀", `\"`, `\\`, `\n`, `\u00e9`, `\/`, "{", "}", "[", "]", "'", "<", "</tool_call>", "[TOOL_CALLS]", "```", callEnd, " "}).Draw(t, "char"))
		}
		return `"` + b.String() + `"`
	}
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind = 6
	} else if depth > 3 {
		kind %= 4
	}
	var parts []string
	switch kind {
	case 0:
		return str()
	case 1:
		return rapid.SampledFrom([]string{"0", "-1", "2.50", "1e+9", "-0.0E-7"}).Draw(t, "number")
	case 2, 3:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
	case 4, 5:
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			parts = append(parts, blank.Draw(t, "blank")+jsonValue(t, depth+1))
		}
		return "[" + strings.Join(parts, ",") + blank.Draw(t, "blank") + "]"
	}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		parts = append(parts, blank.Draw(t, "blank")+str()+blank.Draw(t, "blank")+":"+jsonValue(t, depth+1))
	}
	return "{" + strings.Join(parts, ",") + blank.Draw(t, "blank") + "}"
}

func TestFormsAreReadByTheirParser(t *testing.T) {
	for _, format := range toolcall.Formats() {
		form, err := toolcall.Grammar(format, tools, toolcall.Choice{}, true)
		if err != nil {
			continue // TestGrammarRefusesWhatItCannotForce
		}
		require.Equal(t, format, form.Format)
		require.Len(t, form.Calls, len(tools))
		rapid.Check(t, func(t *rapid.T) {
			var texts []string
			var want []toolcall.Call
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				c := rapid.SampledFrom(form.Calls).Draw(t, "call")
				arguments := jsonValue(t, 0)
				texts = append(texts, c.Prefix+arguments+c.Suffix)
				want = append(want, call(c.Name, arguments))
			}
			text := form.Begin + strings.Join(texts, form.Separator) + form.End
			content, got := stream(t, format, text, func(int) bool { return rapid.Bool().Draw(t, "cut") })
			require.Equal(t, want, got, text)
			require.Empty(t, content, text)

			before := rapid.SampledFrom([]string{"Well. ", "a < b:\n"}).Draw(t, "before")
			content, got, err := toolcall.Parse(format, tools, before+text+"\nBye")
			require.NoError(t, err)
			require.Equal(t, want, got, text)
			require.Equal(t, before+"\nBye", content)
		})
	}
}

func TestGrammar(t *testing.T) {
	form, err := toolcall.Grammar("hermes", tools, toolcall.Choice{Name: "now"}, true)
	require.NoError(t, err)
	require.Equal(t, toolcall.Form{
		Format: "hermes", Separator: "\n", MaxCalls: 1,
		Calls: []toolcall.CallForm{{Name: "now", Prefix: "<tool_call>\n{\"name\": \"now\", \"arguments\": ", Suffix: "}\n</tool_call>", Schema: json.RawMessage(`{"type": "object", "properties": {}}`)}},
	}, form)

	form, err = toolcall.Grammar("generic", tools[:2], toolcall.Choice{}, true)
	require.NoError(t, err)
	require.Zero(t, form.MaxCalls)
	require.Equal(t, "[", form.Begin)
	require.Equal(t, "]", form.End)
	require.Equal(t, tools[1].Parameters, form.Calls[1].Schema, "the client's schema as it is")

	form, err = toolcall.Grammar("llama3_json", tools[:2], toolcall.Choice{}, false)
	require.NoError(t, err)
	require.Equal(t, 1, form.MaxCalls)

	form, err = toolcall.Grammar("hermes", []toolcall.Tool{{Name: `NA"ME`}}, toolcall.Choice{}, true)
	require.NoError(t, err)
	require.Contains(t, form.Calls[0].Prefix, `"NA\"ME"`)
}

func TestGrammarRefusesWhatItCannotForce(t *testing.T) {
	for _, c := range []struct {
		format string
		tools  []toolcall.Tool
		choice toolcall.Choice
		code   infer.Code
		text   string
	}{
		{"pythonic", tools, toolcall.Choice{}, infer.CodeNotImplemented, "pythonic can't be enforced; enforce those of generic"},
		{"llama4_pythonic", tools, toolcall.Choice{}, infer.CodeNotImplemented, "generic"},
		{"qwen3_xml", tools, toolcall.Choice{}, infer.CodeNotImplemented, "generic"},
		{"qwen3_coder", tools, toolcall.Choice{}, infer.CodeNotImplemented, "generic"},
		{"gpt", tools, toolcall.Choice{}, infer.CodeInvalid, `"gpt"`},
		{"hermes", nil, toolcall.Choice{}, infer.CodeInvalid, "there are no tools"},
		{"hermes", tools, toolcall.Choice{Name: "bob"}, infer.CodeInvalid, `"bob" is not among`},
		{"hermes", []toolcall.Tool{{}}, toolcall.Choice{}, infer.CodeInvalid, "0 bytes"},
		{"deepseek_v3", []toolcall.Tool{{Name: "a b"}}, toolcall.Choice{}, infer.CodeInvalid, `"a b"`},
	} {
		_, err := toolcall.Grammar(c.format, c.tools, c.choice, true)
		require.Error(t, err)
		require.Equal(t, c.code, infer.AsError(err).Code, c.format)
		require.Contains(t, infer.AsError(err).Message, c.text)
	}
}

func TestXMLValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab<>/\n \"\\é😀\t=")), 0, 20, -1).Draw(t, "text")
		out := "<tool_call>\n<function=store>\n<parameter=text>\n" + text + "\n</parameter>\n<parameter=maybe>\n" + text + "x\n</parameter>\n</function>\n</tool_call>"
		content, calls := stream(t, "qwen3_xml", out, func(int) bool { return rapid.Bool().Draw(t, "cut") })
		require.Empty(t, content)
		require.Len(t, calls, 1)
		var got map[string]string
		require.NoError(t, json.Unmarshal([]byte(calls[0].Arguments), &got), calls[0].Arguments)
		require.Equal(t, map[string]string{"text": text, "maybe": text + "x"}, got)
	})
}

func TestPythonicValuesComeBack(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab'\"\\\n é😀,)]=")), 0, 20, -1).Draw(t, "text")
		n := rapid.Int32().Draw(t, "n")
		f := rapid.Float64Range(-1e6, 1e6).Draw(t, "f")
		out := fmt.Sprintf("[store(text='%s', n=%d, list=[%v, {'k': '%s'}])]", escape.Replace(text), n, f, escape.Replace(text))
		content, calls := stream(t, "pythonic", out, func(int) bool { return rapid.Bool().Draw(t, "cut") })
		require.Empty(t, content)
		require.Len(t, calls, 1)
		want, err := json.Marshal(map[string]any{"text": text, "n": n, "list": []any{f, map[string]string{"k": text}}})
		require.NoError(t, err)
		require.JSONEq(t, string(want), calls[0].Arguments)
	})
}
