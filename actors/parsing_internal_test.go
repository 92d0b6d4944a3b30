package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func parserOf(t require.TestingT, p *parsing) *outputParser {
	o, err := p.newParser()
	require.NoError(t, err)
	return o
}

// callsOfF is a set of one tool without parameters.
var callsOfF = func() *toolcall.Set {
	set, err := toolcall.NewSet([]toolcall.Tool{{Name: "f"}})
	if err != nil {
		panic(err)
	}
	return set
}()

// thinkAndCall has the output of a model that thinks and then calls f.
var thinkAndCall = parsing{
	thoughts: "glm45", options: reasoning.Options{Tools: true}, format: "hermes",
	tools: callsOfF, markers: []string{"<tool_call>"},
}

// say writes pieces so that their joined text can be compared. Ids differ from run to
// run and are only looked at for that.
func say(pieces []infer.Piece, ids map[string]bool) string {
	var b strings.Builder
	last := infer.PieceKind(255)
	for _, p := range pieces {
		switch p.Kind {
		case infer.PieceCall:
			ids[p.ID] = true
			fmt.Fprintf(&b, "|call %d %s", p.Index, p.Name)
		case infer.PieceCallEnd:
			fmt.Fprintf(&b, "|end %d %v", p.Index, p.Incomplete)
		default:
			if p.Kind != last {
				fmt.Fprintf(&b, "|%d:", p.Kind)
			}
			b.WriteString(p.Text)
		}
		last = p.Kind
	}
	return b.String()
}

func parsedOf(tr *transcript, tokens []int32, sizes []int, finish infer.FinishReason) (pieces []infer.Piece, text string) {
	for len(tokens) > 0 && !tr.finished() {
		n := len(tokens)
		if len(sizes) > 0 {
			n, sizes = min(sizes[0], n), sizes[1:]
		}
		out := &SequenceOutput{NewTokenIDs: tokens[:n:n]}
		if tokens = tokens[n:]; len(tokens) == 0 {
			out.FinishReason = finish
		}
		if tr.add(out); tr.due() {
			d := tr.take(0)
			pieces, text = append(pieces, d.Parsed.Pieces...), text+d.Text
		}
	}
	return pieces, text
}

// However tokens are grouped into steps and deltas, the pieces join to the same.
func TestPiecesDoNotDependOnGrouping(t *testing.T) {
	texts := []string{
		"<think>a é</think>\n\nHi<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"é\"}}</tool_call>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> end",
		"no call <tool_call> at all", "<think>never ends <tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":", "",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "text")
		tokens := bytesOf(text + "!")
		params := testkit.Params(100)
		params.Stop = rapid.SampledFrom([][]string{nil, {"end"}, {"\"a\""}}).Draw(t, "stop")
		finish := rapid.SampledFrom([]infer.FinishReason{infer.FinishLength, infer.FinishStop}).Draw(t, "finish")
		own := thinkAndCall
		own.single, own.forced = rapid.Bool().Draw(t, "single"), rapid.Bool().Draw(t, "forced")
		run := func(interval int, sizes []int) (string, int) {
			tr := transcriptOf(&params, interval)
			tr.parse(parserOf(t, &own))
			ids := map[string]bool{}
			pieces, _ := parsedOf(tr, tokens, sizes, finish)
			said := say(pieces, ids)
			require.Len(t, ids, strings.Count(said, "|call"), "ids differ")
			return said, tr.numThoughts()
		}
		one, thoughts := run(1, slices.Repeat([]int{1}, len(tokens)))
		other, again := run(rapid.IntRange(1, 5).Draw(t, "interval"), rapid.SliceOfN(rapid.IntRange(1, 6), 80, 80).Draw(t, "sizes"))
		require.Equal(t, one, other)
		require.Equal(t, thoughts, again)
	})
}

func TestPieces(t *testing.T) {
	const output = "<think>ab</think>x<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
	for _, tc := range []struct {
		change func(*parsing)
		output string
		want   string
		tokens int
	}{
		{func(*parsing) {}, output, "|1:ab|0:x|call 0 f|3:{}|end 0 false|call 1 f|3:{}|end 1 false", 2},
		{func(p *parsing) { p.single = true }, output, "|1:ab|0:x|call 0 f|3:{}|end 0 false", 2},
		{func(p *parsing) { p.forced = true }, output, "|1:ab|call 0 f|3:{}|end 0 false|call 1 f|3:{}|end 1 false", 2},
		{func(p *parsing) { p.format = "" }, "<think>é</think><tool_call>", "|1:é|0:<tool_call>", 2},
		{func(p *parsing) { p.thoughts = "" }, "<think>", "|0:<think>", 0},
		{func(*parsing) {}, "<think>abc", "|1:abc", 3},
		{func(p *parsing) { p.options.Prompt = "<think>\n" }, "abc</think>d", "|1:abc|0:d", 3},
		{func(*parsing) {}, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a", "|call 0 f|3:{\"a|end 0 true", 0},
	} {
		own := thinkAndCall
		tc.change(&own)
		params := testkit.Params(200)
		tr := transcriptOf(&params, 1)
		tr.parse(parserOf(t, &own))
		pieces, text := parsedOf(tr, append(bytesOf(tc.output), testkit.EOS), nil, infer.FinishStop)
		require.Equal(t, tc.want, say(pieces, map[string]bool{}))
		require.Equal(t, tc.output, text, "the text is as the model wrote it")
		require.Equal(t, tc.tokens, tr.numThoughts(), tc.output)
	}
}

// A special token is text only for a parser that looks for it.
func TestParsersSeeTheirSpecialTokens(t *testing.T) {
	for _, tc := range []struct {
		markers []string
		skip    bool
		want    string
	}{{nil, true, "ab"}, {[]string{"<|begin|>"}, true, "a<|begin|>b"}, {nil, false, "a<|begin|>b"}} {
		own := thinkAndCall
		own.markers = tc.markers
		params := testkit.Params(100)
		params.SkipSpecialTokens = tc.skip
		tr := transcriptOf(&params, 1)
		tr.parse(parserOf(t, &own))
		_, text := parsedOf(tr, []int32{'a', testkit.BOS, 'b'}, nil, infer.FinishLength)
		require.Equal(t, tc.want, text)
	}
}

func TestThinkingSwitch(t *testing.T) {
	on, off := true, false
	for _, tc := range []struct {
		request, server string
		want            *bool
	}{
		{"", "", nil}, {`{"enable_thinking":true}`, "", &on}, {`{"thinking":false}`, `{"enable_thinking":true}`, &off},
		{`{"a":1}`, `{"enable_thinking":false}`, &off}, {`{"enable_thinking":"yes"}`, "", nil},
	} {
		e := &Engine{env: &environment{}, config: Config{DefaultChatTemplateKwargs: []byte(tc.server)}}
		require.Equal(t, tc.want, e.thinking(&infer.ChatInput{TemplateKwargs: []byte(tc.request)}), "%+v", tc)
	}
}

func TestTailOfAPrompt(t *testing.T) {
	require.Equal(t, "ab", tailOf("ab"))
	require.Len(t, tailOf(strings.Repeat("x", 1000)), maxTail)
}

var yesOrNo = sync.OnceValue(func() infer.Grammar {
	g, err := newGrammars(testkit.Tokenizer(), testkit.NumTokens+3, []int32{testkit.EOS}).compile(context.Background(), &infer.StructuredOutput{Choice: []string{"yes", "no"}})
	if err != nil {
		panic(err)
	}
	return g
})

// thinkingOver returns the matcher of an output that is "yes" or "no" behind thoughts.
func thinkingOver(inside bool) *thinkingMatcher {
	return (&thinkingGrammar{
		answer: yesOrNo(), tokenizer: testkit.Tokenizer(), vocabSize: testkit.NumTokens + 3, eos: []int32{testkit.EOS}, inside: inside,
		starts: []int32{testkit.BOS}, ends: [][]byte{[]byte("</t>")},
	}).NewMatcher().(*thinkingMatcher)
}

// allowed lists the tokens that may come next.
func allowed(m infer.Matcher) (ids []int32) {
	mask := make([]uint64, (testkit.NumTokens+3+63)/64)
	for i := range mask {
		mask[i] = ^uint64(0)
	}
	m.Mask(mask)
	return idsOf(mask)
}

func idsOf(mask []uint64) (ids []int32) {
	for id := range int32(len(mask) * 64) {
		if mask[id/64]>>(id%64)&1 != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// next lists the tokens that may come after output, once they are known.
func next(t require.TestingT, m infer.Matcher, output []int32) []int32 {
	mask, late := make([]uint64, (testkit.NumTokens+3+63)/64), make(chan struct{})
	for {
		ok, err := m.Next(output, mask, &infer.MaskBudget{Late: func() { close(late) }})
		require.NoError(t, err)
		if ok {
			require.Equal(t, len(output), m.NumAccepted())
			return idsOf(mask)
		}
		require.Equal(t, len(output), m.NumAccepted())
		<-late
	}
}

func TestThoughtsPassBeforeAForm(t *testing.T) {
	m := thinkingOver(false)
	require.ElementsMatch(t, []int32{'y', 'n', testkit.BOS}, allowed(m), "thoughts may begin, or the answer")
	require.Error(t, m.Accept('a'))
	require.NoError(t, m.Accept(testkit.BOS))
	free := allowed(m)
	require.Len(t, free, testkit.NumTokens+3-1)
	require.NotContains(t, free, int32(testkit.EOS), "thoughts come to an end")
	for _, id := range bytesOf("hm </t") {
		require.NoError(t, m.Accept(id))
		require.Len(t, allowed(m), len(free))
	}
	require.NoError(t, m.Accept('>'))
	require.ElementsMatch(t, []int32{'y', 'n'}, allowed(m))
	require.NoError(t, m.Accept('n'))
	require.NoError(t, m.Accept('o'))
	require.Equal(t, []int32{testkit.EOS}, allowed(m))
	require.Equal(t, 10, m.NumAccepted())
	m.Rollback(3)
	require.Len(t, allowed(m), len(free), "back in the thoughts")
	require.Equal(t, 7, m.NumAccepted())
	m.Rollback(7)
	require.ElementsMatch(t, []int32{'y', 'n', testkit.BOS}, allowed(m))
	require.NoError(t, m.Accept('y'))
	require.Equal(t, []int32{'e'}, allowed(m))

	inside := thinkingOver(true)
	require.Len(t, allowed(inside), len(free))
	for _, id := range bytesOf("</t>no") {
		require.NoError(t, inside.Accept(id))
	}
	require.Equal(t, []int32{testkit.EOS}, allowed(inside))
}

func TestEnforceableFormats(t *testing.T) {
	tok := testkit.Tokenizer()
	require.True(t, canEnforce("hermes", tok))
	require.False(t, canEnforce("pythonic", tok), "its calls hold no JSON")
	require.True(t, hasSpecial([]string{"a", "<|begin|>["}, tok), "no grammar lets special tokens through")
	require.False(t, hasSpecial([]string{"<tool_call>"}, tok))
}

func TestMergedPieces(t *testing.T) {
	first := &infer.Parsed{Pieces: []infer.Piece{{Text: "a"}, {Kind: infer.PieceCall, ID: "1"}, {Kind: infer.PieceArguments, Text: "{"}}}
	second := &infer.Parsed{Pieces: []infer.Piece{{Kind: infer.PieceArguments, Text: "}"}, {Kind: infer.PieceCallEnd}, {Kind: infer.PieceCall, Index: 1, ID: "2"}}}
	merged := mergeParsed(first, second)
	require.Equal(t, []infer.Piece{
		{Text: "a"}, {Kind: infer.PieceCall, ID: "1"}, {Kind: infer.PieceArguments, Text: "{}"}, {Kind: infer.PieceCallEnd}, {Kind: infer.PieceCall, Index: 1, ID: "2"},
	}, merged.Pieces)
	require.Equal(t, "{", first.Pieces[2].Text, "what was handed out stays")
	require.Same(t, second, mergeParsed(nil, second))
	require.Same(t, first, mergeParsed(first, nil))
	require.Greater(t, deltaBytes(&infer.Delta{Parsed: first}), deltaBytes(&infer.Delta{})+2*pieceBytes)
}

// A matcher that went back is one that never went there.
func TestRollbackThroughThoughts(t *testing.T) {
	for _, inside := range []bool{false, true} {
		fresh := func() *thinkingMatcher { return thinkingOver(inside) }
		rapid.Check(t, func(t *rapid.T) {
			m, accepted := fresh(), []int32{}
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				if n := len(accepted); n > 0 && rapid.IntRange(0, 3).Draw(t, "back") == 0 {
					k := rapid.IntRange(1, n).Draw(t, "k")
					m.Rollback(k)
					accepted = accepted[:n-k]
				} else if id := rapid.SampledFrom(append(bytesOf("</t>yesno"), testkit.BOS)).Draw(t, "token"); m.Accept(id) == nil {
					accepted = append(accepted, id)
				}
				other := fresh()
				for _, id := range accepted {
					require.NoError(t, other.Accept(id))
				}
				require.Equal(t, allowed(other), allowed(m), "behind %v", accepted)
				require.Equal(t, len(accepted), m.NumAccepted())
				require.Equal(t, allowed(other), next(t, fresh(), accepted), "behind %v", accepted)
				require.Equal(t, allowed(other), next(t, m, accepted), "behind %v", accepted)
			}
		})
	}
}

func TestFormsOfAnswersThatMayCall(t *testing.T) {
	e := &Engine{env: &environment{}, config: Config{ToolCallParser: "hermes", Tokenizer: testkit.Tokenizer()}, enforceable: func() bool { return true }}
	e.grammars = newGrammars(testkit.Tokenizer(), testkit.NumTokens, []int32{testkit.EOS})
	use := &infer.ToolUse{Tools: []infer.Tool{{Name: "f", Parameters: []byte(`{"$dynamicRef":"#x"}`)}}}
	object := &infer.StructuredOutput{Param: "response_format", JSONObject: true}
	begins := func(req *infer.Request) string {
		g, _, err := e.grammar(t.Context(), req)
		require.Nil(t, err)
		if g == nil {
			return "anything"
		}
		mask, text := make([]uint64, 8), ""
		g.NewMatcher().Mask(mask)
		for id := range 256 {
			if mask[id/64]>>(id%64)&1 != 0 {
				text += string(rune(id))
			}
		}
		return text
	}
	require.Equal(t, "anything", begins(&infer.Request{Tools: use}), "with auto a schema is no reason to refuse")
	require.Equal(t, "<{", begins(&infer.Request{Tools: use, Structured: object}))
	require.Equal(t, "{", begins(&infer.Request{Structured: object}))
	require.Equal(t, "ab", begins(&infer.Request{Tools: use, Structured: &infer.StructuredOutput{Choice: []string{"a", "b"}}}))
	e.enforceable = func() bool { return false }
	require.Equal(t, "{", begins(&infer.Request{Tools: use, Structured: object}))
}

// What nobody asked for costs nothing: a token that is only text is not copied.
func TestPlainTokensAllocateNothing(t *testing.T) {
	params := testkit.Params(1 << 20)
	tr := transcriptOf(&params, 1)
	out := &SequenceOutput{NewTokenIDs: []int32{'a'}}
	var d infer.Delta
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		tr.add(out)
		d = tr.take(0)
	}))
	require.Nil(t, d.Parsed)
	require.Equal(t, "a", d.Text)
}
