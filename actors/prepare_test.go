package actors

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

func preparing(change func(*Config)) *Engine {
	c := Config{Tokenizer: testkit.Tokenizer(), Model: testkit.Model(), MaxLogprobs: -1, EOSTokenIDs: []int32{testkit.EOS}}
	if change != nil {
		change(&c)
	}
	return &Engine{env: &environment{}, config: c, controlTokens: c.Tokenizer.ControlTokens()}
}

func TestBadWordsAreTokenizedInBothForms(t *testing.T) {
	e := preparing(nil)
	req := testkit.Completion("hello", 8)
	req.BadWords = []string{"no", " no", ""}
	j, err := e.prepare(context.Background(), req)
	require.Nil(t, err)
	// With a byte tokenizer the spaced form is longer: the space is a token of
	// its own in front of the same tokens, which adds nothing.
	require.Equal(t, [][]int32{{'n', 'o'}, {'n', 'o'}}, j.sequences[0].params.BadWords)
}

func TestParamsAreResolvedPerSequence(t *testing.T) {
	e := preparing(nil)
	req := testkit.Completion("hello", 8)
	req.N, req.Sampling.NumLogprobs = 3, testkit.NumTokens // -1: the whole vocabulary may be asked for
	req.Sampling.Seed, req.SeedGiven = 42, true
	j, err := e.prepare(context.Background(), req)
	require.Nil(t, err)
	seeds := map[uint64]bool{}
	ids := map[infer.SeqID]bool{}
	for i, s := range j.sequences {
		require.Equal(t, i, s.index)
		require.Equal(t, 8, s.params.MaxTokens)
		require.Equal(t, []int32{testkit.EOS}, s.params.EOSTokenIDs)
		seeds[s.params.Seed], ids[s.id] = true, true
	}
	require.Len(t, seeds, 3)
	require.Len(t, ids, 3)
	require.True(t, seeds[42], "the first choice has the request's own seed")
}

func TestRequestTemplate(t *testing.T) {
	in := &infer.ChatInput{Template: "{{ messages[0].content }}!", Messages: []json.RawMessage{[]byte(`{"role":"user","content":"hi"}`)}}
	e := preparing(func(c *Config) { c.TrustRequestChatTemplate = true })
	rendered, err := e.render(in, 0)
	require.Nil(t, err)
	require.Equal(t, "hi!", rendered.Text)

	in.Template = "{% for %}"
	_, err = e.render(in, 0)
	require.NotNil(t, err)
	require.Equal(t, infer.CodeInvalid, err.Code)

	template, failure := chat.Parse("{{ raise_exception('roles must alternate') }}", chat.Options{})
	require.NoError(t, failure)
	e.config.Template, in.Template = template, ""
	_, err = e.render(in, 0)
	require.NotNil(t, err)
	require.Equal(t, infer.CodeInvalid, err.Code)
	require.Contains(t, err.Message, "roles must alternate")
}

// Metrics may cost no allocation per token: neither the series nor the stamps.
func TestMetricsAllocateNothingPerToken(t *testing.T) {
	perToken := func(m *metrics.Engine, perRequest bool) float64 {
		w := newWorkbench(t)
		w.env.series, w.env.perRequestMetrics = []*metrics.Engine{m}, perRequest
		j := w.newJob(1, func(p *infer.SamplingParams) { p.IgnoreEOS = true })
		s := newSequenceActor(w.env, j, &j.sequences[0])
		s.tokenIDs = make([]int32, 0, 1<<12)
		out := &SequenceOutput{NewTokenIDs: []int32{'a'}, LastToken: 3}
		var events []infer.Event
		return testing.AllocsPerRun(1000, func() {
			out.NumOutputTokens++
			out.LastToken++
			s.advance(nil, out)
			events = j.stream.Drain(events[:0])
		})
	}
	series := metrics.NewEngine(prometheus.NewRegistry(), metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})
	off := perToken(nil, false)
	require.Zero(t, perToken(series, true)-off)
	require.LessOrEqual(t, off, 1.0, "the text of a token, at most")
}

func TestAHopelessConversationIsNotRendered(t *testing.T) {
	const source = "{% for m in messages %}{{ m.content }}{% endfor %}"
	e := preparing(func(c *Config) { c.TrustRequestChatTemplate = true })
	long := json.RawMessage(`{"role":"user","content":"` + strings.Repeat("x", 1<<19) + `"}`)
	req := testkit.Completion("", 8)
	req.Prompts, req.Chat = nil, &infer.ChatInput{Template: source, Messages: []json.RawMessage{long, []byte(`{"role":"user","content":"hi"}`)}}
	_, err := e.prepare(context.Background(), req)
	require.NotNil(t, err)
	require.Equal(t, infer.CodeContextLength, err.Code)
	require.Contains(t, err.Message, "maximum context length is 128 tokens. However, you requested 8 output tokens and your prompt contains at least 121 input tokens")

	req.Chat.Template = "{{ messages[-1].content }}"
	j, err := e.prepare(context.Background(), req)
	require.Nil(t, err, "what a template leaves out does not count")
	require.Equal(t, 2, j.numPromptTokens)

	req.Chat.Template, req.TruncatePromptTokens = source, new(int)
	*req.TruncatePromptTokens = 5
	j, err = e.prepare(context.Background(), req)
	require.Nil(t, err, "nor does what is cut")
	require.Equal(t, 5, j.numPromptTokens)
}

// A request that waits costs about what it keeps of its prompt, not what came with it.
func TestPreparedRequestsAreSmall(t *testing.T) {
	const numRequests, promptBytes, numKept = 32, 256 << 10, 16
	e := preparing(func(c *Config) {
		template, err := chat.Parse("{{ messages[0].content }}", chat.Options{})
		require.NoError(t, err)
		c.ReasoningParser, c.Template = "glm45", template
	})
	kept := numKept
	requests := map[string]func() *infer.Request{
		"text": func() *infer.Request { return testkit.Completion(strings.Repeat("x", promptBytes), 8) },
		"ids": func() *infer.Request {
			req := testkit.Completion("", 8)
			req.Prompts[0].TokenIDs = make([]int32, promptBytes/4)
			return req
		},
		"conversation": func() *infer.Request {
			req := testkit.Completion("", 8)
			req.Prompts, req.Chat = nil, &infer.ChatInput{Messages: []json.RawMessage{[]byte(`{"role":"user","content":"` + strings.Repeat("x", promptBytes) + `"}`)}}
			return req
		},
	}
	for name, request := range requests {
		for _, right := range []bool{false, true} {
			jobs := []*job{}
			before := heapInUse()
			for range numRequests {
				req := request()
				req.TruncatePromptTokens, req.TruncateRight = &kept, right
				j, err := e.prepare(context.Background(), req)
				require.Nil(t, err)
				require.Len(t, j.sequences[0].prompt.tokenIDs, numKept)
				jobs = append(jobs, j)
			}
			each := (heapInUse() - before) / numRequests
			require.Less(t, each, int64(16<<10), "%s, right %v", name, right)
			runtime.KeepAlive(jobs)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
