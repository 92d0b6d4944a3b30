package reasoning_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/infer"
	"pgregory.net/rapid"
)

var on, off = true, false

type sample struct {
	name, parser string
	options      reasoning.Options
	text         string
	reasoning    string
	content      string
}

// The first sample of each family is what its page shows, with other words.
var samples = []sample{
	// https://huggingface.co/deepseek-ai/DeepSeek-R1 (usage: output starts with <think>\n).
	{name: "marker in the output", parser: "deepseek_r1", text: "<think>\n9.8 > 9.11\n</think>\n\n9.8", reasoning: "\n9.8 > 9.11\n", content: "\n\n9.8"},
	{name: "marker in the prompt", parser: "deepseek_r1", text: "so\nwhat</think>This", reasoning: "so\nwhat", content: "This"},
	{name: "prompt shown", parser: "deepseek_r1", options: reasoning.Options{Prompt: "<|Assistant|><think>\n"}, text: "so</think>This", reasoning: "so", content: "This"},
	{name: "no end", parser: "deepseek_r1", text: "This goes on </thin", reasoning: "This goes on </thin"},
	{name: "end at once", parser: "deepseek_r1", text: "</think>This", content: "This"},
	{name: "nothing behind the end", parser: "deepseek_r1", text: "<think>x</think>", reasoning: "x"},
	{name: "white space before the marker", parser: "deepseek_r1", text: "\n <think>x</think>\nThis", reasoning: "x", content: "\nThis"},
	{name: "white space without a marker", parser: "deepseek_r1", text: "\n x</think>y", reasoning: "\n x", content: "y"},
	{name: "white space alone", parser: "deepseek_r1", text: " \n", reasoning: " \n"},
	{name: "start marker again", parser: "deepseek_r1", text: "<think>a<think>b</think>c", reasoning: "a<think>b", content: "c"},
	{name: "second block", parser: "deepseek_r1", text: "a</think>b<think>c</think>d", reasoning: "a", content: "b<think>c</think>d"},
	{name: "empty", parser: "deepseek_r1"},
	{name: "almost a marker", parser: "deepseek_r1", text: "<thinking>a</thinking></think>b", reasoning: "<thinking>a</thinking>", content: "b"},
	{name: "closed in the prompt", parser: "deepseek_r1", options: reasoning.Options{Prompt: "<think>\n\n</think>\n\n"}, text: "a</think>b", content: "a</think>b"},
	{name: "an older end in the prompt", parser: "deepseek_r1", options: reasoning.Options{Prompt: "what is </think>?<|Assistant|>"}, text: "a</think>b", reasoning: "a", content: "b"},
	// https://huggingface.co/Qwen/Qwen3-8B (quickstart) and Qwen3-4B-Thinking-2507 (no start).
	{name: "marker in the output", parser: "qwen3", text: "<think>\nHm.\n</think>\n\nYes", reasoning: "\nHm.\n", content: "\n\nYes"},
	{name: "marker in the prompt", parser: "qwen3", text: "Hm.\n</think>\n\nYes", reasoning: "Hm.\n", content: "\n\nYes"},
	{name: "cut", parser: "qwen3", text: "Hm.", reasoning: "Hm."},
	{name: "switched off", parser: "qwen3", options: reasoning.Options{Thinking: &off}, text: "Yes </think>", content: "Yes </think>"},
	{name: "switched off, empty block", parser: "qwen3", options: reasoning.Options{Thinking: &off}, text: "<think>\n\n</think>\n\nYes", reasoning: "\n\n", content: "\n\nYes"},
	{name: "closed by the template", parser: "qwen3", options: reasoning.Options{Prompt: "assistant\n<think>\n\n</think>\n\n"}, text: "Yes", content: "Yes"},
	{name: "call in an open block", parser: "qwen3", options: reasoning.Options{Tools: true}, text: "Look.\n<tool_call>\n{\"name\": \"f\"}", reasoning: "Look.\n", content: "<tool_call>\n{\"name\": \"f\"}"},
	{name: "XML call in an open block", parser: "qwen3", options: reasoning.Options{Tools: true}, text: "<think>Look.<tool_call>\n<function=f>", reasoning: "Look.", content: "<tool_call>\n<function=f>"},
	{name: "tag mentioned", parser: "qwen3", options: reasoning.Options{Tools: true}, text: "Use <tool_call> and <tool_call>\n<fun</think>a", reasoning: "Use <tool_call> and <tool_call>\n<fun", content: "a"},
	{name: "tag twice", parser: "qwen3", options: reasoning.Options{Tools: true}, text: "a<tool_call><tool_call>{}", reasoning: "a<tool_call>", content: "<tool_call>{}"},
	{name: "tag at the end", parser: "qwen3", options: reasoning.Options{Tools: true}, text: "a<tool_call>\n<", reasoning: "a<tool_call>\n<"},
	{name: "call, but no tools", parser: "qwen3", text: "a<tool_call>{}</think>b", reasoning: "a<tool_call>{}", content: "b"},
	// https://www.ibm.com/granite/docs/ (Granite 3.2, thinking).
	{name: "phrases", parser: "granite", text: "Here is my thought process: a, b Here is my response: c", reasoning: " a, b ", content: " c"},
	{name: "short phrases", parser: "granite", text: "Here's my thought process:a\nHere's my response:\nc", reasoning: "a\n", content: "\nc"},
	{name: "no phrase", parser: "granite", text: "Here is my answer: c", content: "Here is my answer: c"},
	{name: "phrase cut", parser: "granite", text: "Here is my thou", content: "Here is my thou"},
	{name: "no end", parser: "granite", text: "Here is my thought process: a Here is my resp", reasoning: " a Here is my resp"},
	{name: "almost the end", parser: "granite", text: "Here is my thought process: Here is Here is my response:c", reasoning: " Here is ", content: "c"},
	// https://huggingface.co/mistralai/Magistral-Small-2509 (chat template).
	{name: "block", parser: "mistral", text: "[THINK]a[/THINK]b", reasoning: "a", content: "b"},
	{name: "text before", parser: "mistral", text: "x [THINK]a[/THINK]b[THINK]c", reasoning: "a", content: "x b[THINK]c"},
	{name: "no end", parser: "mistral", text: "[THINK]a[/THI", reasoning: "a[/THI"},
	{name: "no block", parser: "mistral", text: " [THIN", content: " [THIN"},
	{name: "end alone", parser: "mistral", text: "a[/THINK]b", content: "ab"},
	// https://huggingface.co/zai-org/GLM-4.5 (chat template; /nothink gives <think></think>).
	{name: "block", parser: "glm45", text: "\n<think>a</think>\nb", reasoning: "a", content: "\nb"},
	{name: "no block", parser: "glm45", text: "b</think>", content: "b</think>"},
	{name: "prompt opened it", parser: "glm45", options: reasoning.Options{Prompt: "<|assistant|>\n<think>"}, text: "a</think>b", reasoning: "a", content: "b"},
	{name: "marker quoted in the answer", parser: "glm45", text: "Write <think> first.", content: "Write <think> first."},
	// https://huggingface.co/stepfun-ai/step3 (reasoning up to </think>).
	{name: "block", parser: "step3", text: "a</think>b", reasoning: "a", content: "b"},
	{name: "no end", parser: "step3", text: "a", reasoning: "a"},
	// https://huggingface.co/deepseek-ai/DeepSeek-V3.1 (thinking and non-thinking templates).
	{name: "not asked to think", parser: "deepseek_v3", text: "<think>a</think>b", content: "<think>a</think>b"},
	{name: "asked to think", parser: "deepseek_v3", options: reasoning.Options{Thinking: &on}, text: "a</think>b", reasoning: "a", content: "b"},
	{name: "prompt opened it", parser: "deepseek_v3", options: reasoning.Options{Prompt: "<think>"}, text: "a</think>b", reasoning: "a", content: "b"},
	// https://huggingface.co/Hcompany/Holo2-8B.
	{name: "block", parser: "holo2", text: "a</think>b", reasoning: "a", content: "b"},
	{name: "all is text", parser: "none", text: "<think>a</think>b", content: "<think>a</think>b"},
}

func TestEveryFamily(t *testing.T) {
	covered := map[string]bool{}
	for _, s := range samples {
		covered[s.parser] = true
		t.Run(s.parser+"/"+s.name, func(t *testing.T) {
			r, c, err := reasoning.Parse(s.parser, s.options, s.text)
			require.NoError(t, err)
			require.Equal(t, s.reasoning, r)
			require.Equal(t, s.content, c)
		})
	}
	require.Len(t, covered, len(reasoning.Names()))
}

// split pushes the text in pieces that end at the cuts, and checks every promise on the way.
func split(t require.TestingT, s sample, cuts func(n int) bool) (r, c string) {
	p, err := reasoning.New(s.parser, s.options)
	require.NoError(t, err)
	var got [2]strings.Builder
	collect := func(pieces []reasoning.Piece) {
		for _, piece := range pieces {
			require.NotEmpty(t, piece.Text)
			require.True(t, utf8.ValidString(piece.Text) || !utf8.ValidString(s.text), "%q", piece.Text)
			got[piece.Part].WriteString(piece.Text)
		}
	}
	from := 0
	for i := 1; i <= len(s.text); i++ {
		if i == len(s.text) || cuts(i) {
			collect(p.Push(s.text[from:i]))
			from = i
			start, end := p.Span()
			require.LessOrEqual(t, start, end)
			require.LessOrEqual(t, end, i)
		}
	}
	collect(p.Flush())
	require.Empty(t, p.Flush())
	start, end := p.Span()
	require.Equal(t, got[reasoning.Reasoning].String(), s.text[start:end], "the span is the reasoning")
	return got[reasoning.Reasoning].String(), got[reasoning.Content].String()
}

func TestCutsChangeNothing(t *testing.T) {
	for _, s := range samples {
		s.text = strings.ReplaceAll(s.text, "a", "\u00e9\u20ac\U0001F600")
		wantR, wantC, err := reasoning.Parse(s.parser, s.options, s.text)
		require.NoError(t, err)
		for at := range len(s.text) {
			r, c := split(t, s, func(n int) bool { return n == at })
			require.Equal(t, []string{wantR, wantC}, []string{r, c}, "%s cut at %d", s.text, at)
		}
		r, c := split(t, s, func(int) bool { return true })
		require.Equal(t, []string{wantR, wantC}, []string{r, c}, "%s byte by byte", s.text)
	}
}

var words = []string{"<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "<function=", "{", "\n", " ", "a", "\u20ac", "<", "</th",
	"Here is my thought process:", "Here's my response:", "Here is my ", "\xff", "\xe2\x82"}

func TestCutsChangeNothingInAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sample{
			parser: rapid.SampledFrom(reasoning.Names()).Draw(t, "parser"),
			text:   strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 12).Draw(t, "words"), ""),
			options: reasoning.Options{
				Tools:    rapid.Bool().Draw(t, "tools"),
				Prompt:   rapid.SampledFrom([]string{"", "<think>\n", "</think>\n\n"}).Draw(t, "prompt"),
				Thinking: rapid.SampledFrom([]*bool{nil, &on, &off}).Draw(t, "thinking"),
			},
		}
		wantR, wantC, err := reasoning.Parse(s.parser, s.options, s.text)
		require.NoError(t, err)
		r, c := split(t, s, func(int) bool { return rapid.Bool().Draw(t, "cut") })
		require.Equal(t, []string{wantR, wantC}, []string{r, c})
		require.LessOrEqual(t, len(r)+len(c), len(s.text))
	})
}

func TestTextComesAsSoonAsItCannotBeAMarker(t *testing.T) {
	p, err := reasoning.New("deepseek_r1", reasoning.Options{})
	require.NoError(t, err)
	require.Equal(t, reasoning.Reasoning, p.Part())
	for _, step := range []struct {
		push string
		want []reasoning.Piece
		part reasoning.Part
	}{
		{"Hm", []reasoning.Piece{{reasoning.Reasoning, "Hm"}}, reasoning.Reasoning},
		{" </", []reasoning.Piece{{reasoning.Reasoning, " "}}, reasoning.Reasoning},
		{"b>", []reasoning.Piece{{reasoning.Reasoning, "</b>"}}, reasoning.Reasoning},
		{"</think", nil, reasoning.Reasoning},
		{">Yes</", []reasoning.Piece{{reasoning.Content, "Yes</"}}, reasoning.Content},
		{"\xe2", nil, reasoning.Content},
		{"\x82\xac", []reasoning.Piece{{reasoning.Content, "\u20ac"}}, reasoning.Content},
		{"", nil, reasoning.Content},
	} {
		require.Equal(t, step.want, p.Push(step.push), step.push)
		require.Equal(t, step.part, p.Part(), step.push)
	}
	start, end := p.Span()
	require.Equal(t, [2]int{0, len("Hm </b>")}, [2]int{start, end})
}

func TestHeldTextIsBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("\n", 1<<16), "x<tool_call>" + strings.Repeat(" ", 1<<16)} {
		p, err := reasoning.New("qwen3", reasoning.Options{Tools: true})
		require.NoError(t, err)
		n := 0
		for _, piece := range p.Push(text) {
			n += len(piece.Text)
		}
		require.Greater(t, n, len(text)-512)
	}
}

func TestUnknownNameIsRefused(t *testing.T) {
	for _, name := range []string{"", "gpt"} {
		_, _, err := reasoning.Parse(name, reasoning.Options{}, "")
		e := infer.AsError(err)
		require.Equal(t, infer.CodeInvalid, e.Code)
		require.Equal(t, "reasoning_parser", e.Param)
		require.Contains(t, e.Message, "deepseek_r1, deepseek_v3")
	}
}

func FuzzSplit(f *testing.F) {
	names := reasoning.Names()
	for i, s := range samples {
		f.Add(uint8(slices.Index(names, s.parser)), s.text, s.options.Prompt, uint64(i)*0x9e3779b97f4a7c15, s.options.Tools)
	}
	f.Fuzz(func(t *testing.T, which uint8, text, prompt string, cuts uint64, tools bool) {
		s := sample{parser: names[int(which)%len(names)], text: text, options: reasoning.Options{Prompt: prompt, Tools: tools}}
		wantR, wantC, err := reasoning.Parse(s.parser, s.options, text)
		require.NoError(t, err)
		r, c := split(t, s, func(n int) bool { return cuts>>(n%64)&1 == 1 })
		require.Equal(t, []string{wantR, wantC}, []string{r, c})
	})
}
