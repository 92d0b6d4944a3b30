package toolcall_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/infer"
	"pgregory.net/rapid"
)

func TestEveryFormat(t *testing.T) {
	covered := map[string]bool{}
	for _, s := range samples {
		covered[s.format] = true
		t.Run(s.format+"/"+s.name, func(t *testing.T) {
			content, got, err := toolcall.Parse(s.format, tools, s.text)
			require.NoError(t, err)
			require.Equal(t, s.calls, got)
			require.Equal(t, s.content, content)
		})
	}
	require.Len(t, covered, len(toolcall.Formats()))
}

// stream pushes text in pieces that end at the cuts, joins the events and checks their order.
func stream(t require.TestingT, format, text string, cuts func(n int) bool) (string, []toolcall.Call) {
	p, err := toolcall.New(format, tools)
	require.NoError(t, err)
	var events []toolcall.Event
	from := 0
	for i := 1; i <= len(text); i++ {
		if i == len(text) || cuts(i) {
			events = append(events, p.Push(text[from:i])...)
			from = i
		}
	}
	events = append(events, p.Flush()...)
	require.Empty(t, p.Push("<tool_call>"), "nothing comes behind the end")
	require.Empty(t, p.Flush())
	return join(t, events, utf8.ValidString(text))
}

func join(t require.TestingT, events []toolcall.Event, valid bool) (content string, calls []toolcall.Call) {
	open := false
	for _, e := range events {
		if e.Kind == toolcall.Content || e.Kind == toolcall.Arguments {
			require.NotEmpty(t, e.Text)
			require.True(t, !valid || utf8.ValidString(e.Text), "%q", e.Text)
		}
		require.Equal(t, e.Kind == toolcall.Arguments || e.Kind == toolcall.CallEnd, open, "%v", e)
		switch e.Kind {
		case toolcall.Content:
			content += e.Text
			continue
		case toolcall.CallStart:
			require.NotEmpty(t, e.Name)
			calls = append(calls, toolcall.Call{Name: e.Name, Unknown: e.Unknown})
			open = true
		case toolcall.Arguments:
			calls[e.Index].Arguments += e.Text
		case toolcall.CallEnd:
			open = false
			last := &calls[e.Index]
			last.Incomplete = e.Incomplete
			if !e.Incomplete {
				require.True(t, json.Valid([]byte(last.Arguments)), "%s", last.Arguments)
			}
		}
		require.Equal(t, len(calls)-1, e.Index)
	}
	require.False(t, open)
	return content, calls
}

func TestCutsChangeNothing(t *testing.T) {
	for _, s := range samples {
		for at := range len(s.text) {
			content, got := stream(t, s.format, s.text, func(n int) bool { return n == at })
			require.Equal(t, s.calls, got, "%s: %q cut at %d", s.format, s.text, at)
			require.Equal(t, s.content, content, "%s: %q cut at %d", s.format, s.text, at)
		}
		content, got := stream(t, s.format, s.text, func(int) bool { return true })
		require.Equal(t, s.calls, got, "%s: %q", s.format, s.text)
		require.Equal(t, s.content, content, "%s: %q", s.format, s.text)
	}
}

// words are what the formats are made of.
var words = []string{"<tool_call>", "</tool_call>", "<function=now>", "<function=", "</function>", "<parameter=city>", "</parameter>", "[TOOL_CALLS]", "[ARGS]", "[", "]",
	`{"name": "now", `, `"arguments": {`, `"parameters": `, `{"name": "`, "now", "}", "{", `"`, `\`, "'", ",", ";", ":", "1", "e5", " ", "\n", "```", "json", "now(", "city='", "=", ")",
	begin, callBegin, sep, callEnd, end, "function", "<|python_tag|>", "<|python_start|>", "é", "\xff", "\xe2\x82", "null", "(", "."}

func TestCutsChangeNothingInAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom(toolcall.Formats()).Draw(t, "format")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 16).Draw(t, "words"), "")
		content, want, err := toolcall.Parse(format, tools, text)
		require.NoError(t, err)
		gotContent, got := stream(t, format, text, func(int) bool { return rapid.Bool().Draw(t, "cut") })
		require.Equal(t, want, got)
		require.Equal(t, content, gotContent)
		if len(want) == 0 {
			require.Equal(t, text, content, "without calls nothing changes")
		}
	})
}

func TestCutsChangeNothingInDamagedSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(samples).Draw(t, "sample")
		text := s.text
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			from := rapid.IntRange(0, len(text)).Draw(t, "from")
			to := rapid.IntRange(from, min(len(text), from+8)).Draw(t, "to")
			text = text[:from] + rapid.SampledFrom([]string{"", text[from:to] + text[from:to], rapid.SampledFrom(words).Draw(t, "word")}).Draw(t, "edit") + text[to:]
		}
		content, want, err := toolcall.Parse(s.format, tools, text)
		require.NoError(t, err)
		gotContent, got := stream(t, s.format, text, func(int) bool { return rapid.Bool().Draw(t, "cut") })
		require.Equal(t, want, got)
		require.Equal(t, content, gotContent)
	})
}

func TestTextWithoutCallsIsUntouched(t *testing.T) {
	text := "White  space\n\n\tand <tags>, {braces}, [lists], `code`, \"quotes\", é, 😀 </end>.\n"
	for _, format := range toolcall.Formats() {
		for range 2 {
			content, calls := stream(t, format, text, func(int) bool { return true })
			require.Equal(t, text, content, format)
			require.Empty(t, calls, format)
		}
	}
}

func TestEventsComeAsSoonAsTheyAreSure(t *testing.T) {
	p, err := toolcall.New("hermes", tools)
	require.NoError(t, err)
	for _, step := range []struct {
		push string
		want []toolcall.Event
	}{
		{"Hi <", []toolcall.Event{{Kind: toolcall.Content, Text: "Hi "}}},
		{"b> <tool_call", []toolcall.Event{{Kind: toolcall.Content, Text: "<b> "}}},
		{">\n{\"name\": \"get", nil},
		{"_weather", nil},
		{"\", \"argu", []toolcall.Event{{Kind: toolcall.CallStart, Name: "get_weather"}}},
		{"ments\": {\"city", []toolcall.Event{{Kind: toolcall.Arguments, Text: `{"city`}}},
		{"\": \"\xc3", []toolcall.Event{{Kind: toolcall.Arguments, Text: `": "`}}},
		{"\x85s\"}", []toolcall.Event{{Kind: toolcall.Arguments, Text: `Ås"}`}}},
		{"}", []toolcall.Event{{Kind: toolcall.CallEnd}}},
		{"\n</tool_call>\n", nil},
		{"<tool_call>{\"name\": \"f\", \"arguments\": {", []toolcall.Event{{Kind: toolcall.CallStart, Index: 1, Name: "f", Unknown: true}, {Kind: toolcall.Arguments, Index: 1, Text: "{"}}},
	} {
		require.Equal(t, step.want, p.Push(step.push), step.push)
	}
	require.Equal(t, []toolcall.Event{{Kind: toolcall.CallEnd, Index: 1, Incomplete: true}}, p.Flush())
}

func TestArgumentsAreStreamedInEveryFormat(t *testing.T) {
	for format, text := range map[string]string{
		"hermes":       `<tool_call>{"name": "store", "arguments": {"text": "`,
		"llama3_json":  `{"name": "store", "parameters": {"text": "`,
		"mistral":      `[TOOL_CALLS]store[ARGS]{"text": "`,
		"deepseek_v3":  begin + callBegin + "function" + sep + "store\n```json\n" + `{"text": "`,
		"deepseek_v31": begin + callBegin + "store" + sep + `{"text": "`,
		"qwen3_xml":    "<tool_call>\n<function=store>\n<parameter=text>\n",
		"pythonic":     "[store(text='",
		"generic":      "```json\n{\"name\": \"store\", \"arguments\": {\"text\": \"",
	} {
		p, err := toolcall.New(format, tools)
		require.NoError(t, err)
		p.Push(text)
		require.Equal(t, []toolcall.Event{{Kind: toolcall.Arguments, Text: "word"}}, p.Push("word"), format)
	}
}

func TestHeldTextIsBounded(t *testing.T) {
	for _, c := range []struct{ format, start, repeat string }{
		{"hermes", "<tool_call>", " "},
		{"hermes", "<tool_call>{\"arguments\": {\"a\": [", "1,"},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"", "x"},
		{"hermes", "<tool_call>{\"name\": \"", "x"},
		{"hermes", "<tool_call>{\"", "x"},
		{"hermes", "", "\n"},
		{"hermes", "", "<tool_call>"},
		{"llama3_json", "", `{"a":`},
		{"llama3_json", "", "{"},
		{"mistral", "", "[TOOL_CALLS]a"},
		{"mistral", "[TOOL_CALLS]", "a"},
		{"mistral", "[TOOL_CALLS]a", " "},
		{"mistral", "[TOOL_CALLS][", " "},
		{"mistral", "[TOOL_CALLS]a{\"a\":", "["},
		{"deepseek_v3", "", begin},
		{"generic", "", "```json"},
		{"generic", "", "["},
		{"qwen3_xml", "<tool_call>", "\n"},
		{"qwen3_xml", "<function=", "a"},
		{"qwen3_xml", "<function=store><parameter=text>", "\n</parameter>\n\n"},
		{"qwen3_xml", "<function=store><parameter=n>", "1"},
		{"pythonic", "", "[now("},
		{"pythonic", "[", " "},
		{"pythonic", "[now(a=", "["},
		{"pythonic", "[now(a=1", "0"},
		{"pythonic", "[now(a=", "'' "},
	} {
		p, err := toolcall.New(c.format, tools)
		require.NoError(t, err)
		size, held := 1<<16, 1<<12
		if strings.Contains(c.start, `"arguments"`) || strings.Contains(c.start, "=n>") {
			size, held = 5<<18, 1<<20+1<<12
		}
		text, n := c.start+strings.Repeat(c.repeat, size/len(c.repeat)), 0
		for _, e := range p.Push(text) {
			n += len(e.Text)
		}
		require.GreaterOrEqual(t, n, len(text)-held, "%s %s%s", c.format, c.start, c.repeat)
	}
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	for _, c := range []struct {
		format, param, text string
		tools               []toolcall.Tool
	}{
		{format: "gpt", param: "tool_call_parser", text: `"gpt" is not known; known are deepseek_v3, `},
		{format: "hermes", param: "tools", text: "tools[0]: the name has 0 bytes", tools: []toolcall.Tool{{}}},
		{format: "hermes", param: "tools", text: "1 to 256", tools: []toolcall.Tool{{Name: strings.Repeat("x", 257)}}},
		{format: "hermes", param: "tools", text: "tools[1] (b): the parameters", tools: []toolcall.Tool{{Name: "a"}, {Name: "b", Parameters: json.RawMessage("{")}}},
	} {
		_, _, err := toolcall.Parse(c.format, c.tools, "")
		e := infer.AsError(err)
		require.Equal(t, infer.CodeInvalid, e.Code)
		require.Equal(t, c.param, e.Param)
		require.Contains(t, e.Message, c.text)
	}
}

func TestNewID(t *testing.T) {
	random := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	require.Equal(t, "chatcmpl-tool-01020304050607080900000000000000", toolcall.NewID("hermes", random))
	require.Regexp(t, `^[a-zA-Z0-9]{9}$`, toolcall.NewID("mistral", random))
	require.NotEqual(t, toolcall.NewID("mistral", random), toolcall.NewID("mistral", [16]byte{2, 2, 3, 4, 5, 6, 7, 8}))
	require.Equal(t, "aaaaaaaaa", toolcall.NewID("mistral", [16]byte{}))
}

func FuzzParse(f *testing.F) {
	formats := toolcall.Formats()
	for i, s := range samples {
		f.Add(uint8(slices.Index(formats, s.format)), s.text, uint64(i)*0x9e3779b97f4a7c15)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string, cuts uint64) {
		format := formats[int(which)%len(formats)]
		content, want, err := toolcall.Parse(format, tools, text)
		require.NoError(t, err)
		gotContent, got := stream(t, format, text, func(n int) bool { return cuts>>(n%64)&1 == 1 })
		require.Equal(t, want, got)
		require.Equal(t, content, gotContent)
		if len(want) == 0 {
			require.Equal(t, text, content)
		}
	})
}

// One set serves many outputs at once.
func TestSetIsShared(t *testing.T) {
	set, err := toolcall.NewSet(tools)
	require.NoError(t, err)
	n := testing.AllocsPerRun(10, func() { _, _ = set.New("hermes") })
	require.Less(t, n, 10.0, "nothing is validated again, whatever the tools are")
	_, err = set.New("unheard of")
	require.Error(t, err)
	_, err = toolcall.NewSet([]toolcall.Tool{{Name: "f", Parameters: json.RawMessage("{")}})
	require.Error(t, err)
}
