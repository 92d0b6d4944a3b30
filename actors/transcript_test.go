package actors

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func transcriptOf(params *infer.SamplingParams, interval int) *transcript {
	return newTranscript(testkit.Tokenizer(), params, newJob(nil, params.Stop).stops, interval)
}

// feed adds tokens in steps of the given sizes, the last one with a finish, and
// returns what a client gets in total and the number of tokens that counted.
func feed(tr *transcript, tokens []int32, sizes []int, finish infer.FinishReason) (total infer.Delta, deltas int) {
	for len(tokens) > 0 && !tr.finished() {
		n := len(tokens)
		if len(sizes) > 0 {
			n = min(sizes[0], n)
			sizes = sizes[1:]
		}
		out := &SequenceOutput{NewTokenIDs: tokens[:n:n], Details: &OutputDetails{}}
		for _, id := range out.NewTokenIDs {
			out.Details.Logprobs = append(out.Details.Logprobs, infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: id}})
		}
		if tokens = tokens[n:]; len(tokens) == 0 {
			out.FinishReason = finish
		}
		tr.add(out)
		if tr.due() {
			deltas++
			d := tr.take(0)
			accumulate(&total, d)
			total.FinishReason, total.StopReason = d.FinishReason, d.StopReason
		}
	}
	return total, deltas
}

func bytesOf(s string) []int32 {
	ids := make([]int32, len(s))
	for i := range len(s) {
		ids[i] = int32(s[i])
	}
	return ids
}

func TestTranscriptFinishes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		tokens  []int32
		params  func(*infer.SamplingParams)
		finish  infer.FinishReason
		text    string
		count   int // tokens
		reason  infer.FinishReason
		stopped string
	}{
		{name: "length", tokens: bytesOf("abc"), finish: infer.FinishLength, text: "abc", count: 3, reason: infer.FinishLength},
		{name: "end-of-sequence is no text", tokens: append(bytesOf("ab"), testkit.EOS), finish: infer.FinishStop, text: "ab", count: 3, reason: infer.FinishStop},
		{name: "nor is a stop token", tokens: bytesOf("abc"), finish: infer.FinishStop, text: "ab", count: 3, reason: infer.FinishStop},
		{name: "unless it is asked for", tokens: bytesOf("abc"), finish: infer.FinishStop, text: "abc", count: 3, reason: infer.FinishStop,
			params: func(p *infer.SamplingParams) { p.IncludeStopStrInOutput = true }},
		{name: "half a character is dropped", tokens: bytesOf("é")[:1], finish: infer.FinishLength, text: "", count: 1, reason: infer.FinishLength},
		{name: "stop string across tokens", tokens: bytesOf("one two three"), finish: infer.FinishLength, text: "one ", count: 7,
			params: func(p *infer.SamplingParams) { p.Stop = []string{"two", "three"} }, reason: infer.FinishStop, stopped: "two"},
		{name: "stop string kept", tokens: bytesOf("one two three"), finish: infer.FinishLength, text: "one two", count: 7,
			params: func(p *infer.SamplingParams) { p.Stop, p.IncludeStopStrInOutput = []string{"two"}, true }, reason: infer.FinishStop, stopped: "two"},
		{name: "stop string in the last token", tokens: bytesOf("ab!"), finish: infer.FinishLength, text: "ab", count: 3,
			params: func(p *infer.SamplingParams) { p.Stop = []string{"!"} }, reason: infer.FinishStop, stopped: "!"},
		{name: "half a stop string is text in the end", tokens: bytesOf("one tw"), finish: infer.FinishLength, text: "one tw", count: 6,
			params: func(p *infer.SamplingParams) { p.Stop = []string{"two"} }, reason: infer.FinishLength},
		{name: "no stop before min_tokens", tokens: bytesOf("a.b.c"), finish: infer.FinishLength, text: "a.b", count: 4,
			params: func(p *infer.SamplingParams) { p.Stop, p.MinTokens = []string{"."}, 2 }, reason: infer.FinishStop, stopped: "."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := testkit.Params(100)
			if tc.params != nil {
				tc.params(&params)
			}
			for _, sizes := range [][]int{nil, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 3, 2, 3, 2, 3}} {
				total, _ := feed(transcriptOf(&params, 1), tc.tokens, sizes, tc.finish)
				require.Equal(t, tc.text, total.Text)
				require.Equal(t, tc.tokens[:tc.count], total.TokenIDs)
				require.Len(t, total.Logprobs, tc.count)
				require.Equal(t, tc.count, total.NumOutputTokens)
				require.Equal(t, tc.reason, total.FinishReason)
				require.Equal(t, infer.StopReason{Text: tc.stopped}, total.StopReason)
			}
		})
	}
}

func TestTextAndTokensLeaveTogether(t *testing.T) {
	params := testkit.Params(10)
	tr := transcriptOf(&params, 1)
	for _, id := range bytesOf("é")[:1] {
		tr.add(&SequenceOutput{NewTokenIDs: []int32{id}})
		require.False(t, tr.due(), "half a character is held back, with its token")
	}
	tr.add(&SequenceOutput{NewTokenIDs: bytesOf("é")[1:]})
	require.True(t, tr.due())
	d := tr.take(3)
	require.Equal(t, infer.Delta{Index: 3, Text: "é", TokenIDs: bytesOf("é"), NumOutputTokens: 2}, d)
}

// The memory behind a step's tokens is not the transcript's to write to.
func TestHeldBackTokensKeepOffTheStepsMemory(t *testing.T) {
	params := testkit.Params(10)
	tr := transcriptOf(&params, 1)
	memory := append(bytesOf("é"), 7)
	tr.add(&SequenceOutput{NewTokenIDs: memory[:1]})
	tr.add(&SequenceOutput{NewTokenIDs: bytesOf("é")[1:]})
	require.Equal(t, bytesOf("é"), tr.take(0).TokenIDs)
	memory[1] = 9
	tr.add(&SequenceOutput{NewTokenIDs: memory[:1]})
	tr.add(&SequenceOutput{NewTokenIDs: bytesOf("é")[1:]})
	require.EqualValues(t, 9, memory[1])
}

func TestStreamInterval(t *testing.T) {
	params := testkit.Params(100)
	_, deltas := feed(transcriptOf(&params, 4), bytesOf("abcdefghijk"), slices.Repeat([]int{1}, 11), infer.FinishLength)
	require.Equal(t, 4, deltas, "a, bcde, fghi, jk")
}

// What a client gets in total does not depend on how tokens were grouped into
// steps or deltas, and what it has got at any moment is a beginning of that.
func TestGroupingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := []byte("ab.\xc3\xa9\xf0\x9f\xaa\xb6")
		var tokens []int32
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			tokens = append(tokens, int32(rapid.SampledFrom(alphabet).Draw(t, "token")))
		}
		params := testkit.Params(100)
		params.Stop = rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("ab.é")), 1, 3, -1), 0, 3).Draw(t, "stop")
		params.MinTokens = rapid.IntRange(0, 5).Draw(t, "min_tokens")
		params.IncludeStopStrInOutput = rapid.Bool().Draw(t, "include")
		finish := rapid.SampledFrom([]infer.FinishReason{infer.FinishLength, infer.FinishStop}).Draw(t, "finish")
		interval := rapid.IntRange(1, 5).Draw(t, "interval")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6), 40, 40).Draw(t, "sizes")

		one, _ := feed(transcriptOf(&params, 1), tokens, slices.Repeat([]int{1}, len(tokens)), finish)
		other, _ := feed(transcriptOf(&params, interval), tokens, sizes, finish)
		require.Equal(t, one, other)
		require.True(t, utf8.ValidString(one.Text))
		for _, stop := range params.Stop {
			if params.MinTokens == 0 && !params.IncludeStopStrInOutput {
				require.False(t, strings.Contains(one.Text, stop), "%q holds the stop string %q", one.Text, stop)
			}
		}
	})
}
