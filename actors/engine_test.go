package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func newScripted(t testing.TB, change func(*actors.Config)) *actors.Engine {
	return startEngine(t, testkit.NewDevice(testkit.DeviceOptions{}), change)
}

func TestOneCompletion(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion("hello", 20)
	a := generate(t, e, req)
	want := testkit.Continue([]int32("hello"), &req.Sampling)
	require.Equal(t, want, a.choices[0].tokenIDs)
	require.Nil(t, a.final.Err)
	require.Equal(t, infer.Usage{NumPromptTokens: 5, NumCompletionTokens: len(want)}, a.final.Usage)
	require.NotNil(t, a.final.Metrics)
	require.Nil(t, a.choices[0].prompt, "nobody asked for it")
}

func TestStreamIntervalOfTheRequest(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion("hello", 12)
	req.Sampling.IgnoreEOS, req.StreamInterval = true, 100
	a := generate(t, e, req)
	require.Len(t, a.choices[0].tokenIDs, 12)
	require.LessOrEqual(t, a.choices[0].deltas, 2, "the first token and the rest")
}

func TestMetricsAgreeWithEachOther(t *testing.T) {
	e := newScripted(t, nil)
	for range 20 {
		req := testkit.Completion("hello", 12)
		req.Sampling.IgnoreEOS = true
		a := generate(t, e, req)
		wall := float64(infer.Now()-req.Arrival) / 1e6
		m, n := a.final.Metrics, float64(a.final.Usage.NumCompletionTokens)
		require.Equal(t, 12.0, n)
		require.InEpsilon(t, m.GenerationTimeMs.Value, m.MeanITLMs.Value*(n-1), 1e-9)
		inference := m.TimeToFirstTokenMs.Value + m.GenerationTimeMs.Value
		require.InEpsilon(t, 1000*n/inference, m.TokensPerSecond.Value, 1e-9)
		require.LessOrEqual(t, m.QueueTimeMs.Value+inference, wall)
		require.Positive(t, m.QueueTimeMs.Value)
	}
}

func TestPromptsTimesChoices(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion("", 6)
	req.Prompts = []infer.Prompt{{Text: "first"}, {TokenIDs: []int32{1, 2, 3}}}
	req.N, req.Sampling.IgnoreEOS = 2, true
	a := generate(t, e, req)
	require.Len(t, a.choices, 4)
	require.Equal(t, infer.Usage{NumPromptTokens: 8, NumCompletionTokens: 24}, a.final.Usage)
	require.Nil(t, a.final.Metrics)
	require.NotEqual(t, a.choices[0].tokenIDs, a.choices[1].tokenIDs, "choices differ")

	alone := testkit.Completion("first", 6)
	alone.Sampling.IgnoreEOS = true
	require.Equal(t, generate(t, e, alone).choices[0].tokenIDs, a.choices[0].tokenIDs, "as in a request of its own")
	again := generate(t, e, req)
	require.Equal(t, a.choices[3].tokenIDs, again.choices[3].tokenIDs, "the set repeats with its seed")
}

func TestSeedsAreDrawn(t *testing.T) {
	texts := map[string]bool{}
	for _, seed := range []uint64{1, 2} {
		e := newScripted(t, func(c *actors.Config) { c.Seed = seed })
		for range 4 {
			req := testkit.Completion("hello", 16)
			req.SeedGiven, req.Sampling.IgnoreEOS = false, true
			texts[generate(t, e, req).choices[0].text] = true
		}
	}
	require.Len(t, texts, 8)
}

func TestEchoAndLogprobs(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion("hello", 5)
	req.Echo, req.Sampling.NumLogprobs, req.Sampling.NumPromptLogprobs = true, 1, 1
	req.Sampling.IgnoreEOS = true
	c := generate(t, e, req).choices[0]
	require.Equal(t, "hello", c.prompt.Text)
	require.Len(t, c.prompt.Logprobs, 5)
	require.Nil(t, c.prompt.Logprobs[0].Top)
	joined := ""
	for i, lp := range c.prompt.Logprobs {
		joined += lp.Token.Text
		if i > 0 {
			require.Len(t, lp.Top, 1)
		}
	}
	require.Equal(t, "hello", joined)
	require.Len(t, c.logprobs, 5)
	for i, lp := range c.logprobs {
		require.Equal(t, c.tokenIDs[i], lp.Token.TokenID)
		require.Equal(t, string([]byte{byte(c.tokenIDs[i])}), lp.Token.Text)
	}
}

func TestPromptScoring(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion("hello", 0)
	req.Echo, req.Sampling.NumLogprobs, req.Sampling.NumPromptLogprobs = true, 1, 1
	a := generate(t, e, req)
	c := a.choices[0]
	require.Equal(t, 1, c.deltas)
	require.Empty(t, c.tokenIDs)
	require.Equal(t, "hello", c.prompt.Text)
	require.Len(t, c.prompt.Logprobs, 5)
	require.Equal(t, infer.FinishLength, c.finish)
	require.Equal(t, infer.Usage{NumPromptTokens: 5}, a.final.Usage)
	m := a.final.Metrics
	require.True(t, m.TimeToFirstTokenMs.Valid)
	require.Equal(t, infer.NullFloat{Valid: true}, m.GenerationTimeMs)
	require.Equal(t, infer.NullFloat{Valid: true}, m.TokensPerSecond)
	require.False(t, m.MeanITLMs.Valid)
}

func TestCachedPromptStillCosts(t *testing.T) {
	e := newScripted(t, nil)
	text := strings.Repeat("abcd", 10)
	first := generate(t, e, testkit.Completion(text, 2)).final.Usage
	second := generate(t, e, testkit.Completion(text, 2)).final.Usage
	require.Equal(t, 40, first.NumPromptTokens)
	require.Zero(t, first.NumCachedTokens)
	require.Equal(t, 40, second.NumPromptTokens)
	require.Equal(t, 36, second.NumCachedTokens, "whole blocks, the last token excepted")
}

func TestRefusals(t *testing.T) {
	e := newScripted(t, nil)
	for name, tc := range map[string]struct {
		change func(*infer.Request)
		code   infer.Code
		param  string
		part   string
	}{
		"prompt too long": {func(r *infer.Request) { r.Prompts[0].Text = strings.Repeat("x", 5000) }, infer.CodeContextLength, "input_tokens",
			"maximum context length is 128 tokens. However, you requested 8 output tokens and your prompt contains at least 121 input tokens, for a total of at least 129 tokens"},
		"max_tokens too large":  {func(r *infer.Request) { n := 10_000_000; r.MaxTokens = &n }, infer.CodeContextLength, "max_tokens", "max_tokens=10000000"},
		"token id too high":     {func(r *infer.Request) { r.Prompts[0].TokenIDs = []int32{5, 999} }, infer.CodeInvalid, "prompt", "Token id 999 in prompt is out of vocabulary: ids are 0 to 257"},
		"token id negative":     {func(r *infer.Request) { r.Prompts[0].TokenIDs = []int32{-1} }, infer.CodeInvalid, "prompt", "Token id -1"},
		"empty text":            {func(r *infer.Request) { r.Prompts[0].Text = "" }, infer.CodeInvalid, "prompt", "0 tokens"},
		"no prompt":             {func(r *infer.Request) { r.Prompts = nil }, infer.CodeInvalid, "prompt", "At least one prompt"},
		"no ids":                {func(r *infer.Request) { r.Prompts[0].TokenIDs = []int32{} }, infer.CodeInvalid, "prompt", "0 tokens"},
		"n too large":           {func(r *infer.Request) { r.N = 1 << 20 }, infer.CodeInvalid, "n", "16384"},
		"n times prompts":       {func(r *infer.Request) { r.Prompts = make([]infer.Prompt, 2); r.N = 10000 }, infer.CodeInvalid, "n", "2"},
		"n that overflows":      {func(r *infer.Request) { r.Prompts = make([]infer.Prompt, 4); r.N = 1 << 62 }, infer.CodeInvalid, "n", "* 4"},
		"logit_bias":            {func(r *infer.Request) { r.Sampling.LogitBias = []infer.TokenBias{{TokenID: 258}} }, infer.CodeInvalid, "logit_bias", "258"},
		"allowed_token_ids":     {func(r *infer.Request) { r.Sampling.AllowedTokenIDs = []int32{258} }, infer.CodeInvalid, "allowed_token_ids", "258"},
		"stop_token_ids":        {func(r *infer.Request) { r.Sampling.StopTokenIDs = []int32{-7} }, infer.CodeInvalid, "stop_token_ids", "-7"},
		"logprobs":              {func(r *infer.Request) { r.Sampling.NumLogprobs = 21 }, infer.CodeInvalid, "logprobs", "greater than max allowed: 20"},
		"prompt_logprobs":       {func(r *infer.Request) { r.Sampling.NumPromptLogprobs = 258 }, infer.CodeInvalid, "prompt_logprobs", "greater than max allowed: 20"},
		"min above max":         {func(r *infer.Request) { r.Sampling.MinTokens = 9 }, infer.CodeInvalid, "min_tokens", "max_tokens=8, got 9"},
		"truncation":            {func(r *infer.Request) { n := 129; r.TruncatePromptTokens = &n }, infer.CodeInvalid, "truncate_prompt_tokens", "129"},
		"chat without template": {func(r *infer.Request) { r.Prompts, r.Chat = nil, &infer.ChatInput{} }, infer.CodeInvalid, "messages", "no chat template"},
		"untrusted template":    {func(r *infer.Request) { r.Prompts, r.Chat = nil, &infer.ChatInput{Template: "x"} }, infer.CodeInvalid, "chat_template", "--trust-request-chat-template"},
	} {
		t.Run(name, func(t *testing.T) {
			req := testkit.Completion("hello", 8)
			tc.change(req)
			s, err := e.Generate(context.Background(), req)
			require.Nil(t, s)
			require.Equal(t, tc.param, requireError(t, err, tc.code, tc.part).Param)
		})
	}
	require.Nil(t, generate(t, e, testkit.Completion("hello", 8)).final.Err, "the engine serves on")
}

func TestTruncatedPrompt(t *testing.T) {
	e := newScripted(t, nil)
	req := testkit.Completion(strings.Repeat("x", 500)+"tail", 8)
	n := 6
	req.TruncatePromptTokens, req.Echo = &n, true
	a := generate(t, e, req)
	require.Equal(t, 6, a.final.Usage.NumPromptTokens)
	require.Equal(t, "xxtail", a.choices[0].prompt.Text)
}

func TestGivenUpBeforeAdmission(t *testing.T) {
	e := newScripted(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.Generate(ctx, testkit.Completion("hello", 8))
	require.ErrorIs(t, err, context.Canceled)
}

const plainTemplate = "{% for m in messages %}<|begin|>{{ m.role }}:{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|begin|>{% endif %}"

func userMessage(content string) *infer.ChatInput {
	message, _ := json.Marshal(map[string]string{"role": "user", "content": content})
	return &infer.ChatInput{Messages: []json.RawMessage{message}, AddGenerationPrompt: true}
}

func TestChat(t *testing.T) {
	template, err := chat.Parse(plainTemplate, chat.Options{})
	require.NoError(t, err)
	e := newScripted(t, func(c *actors.Config) { c.Template = template })
	req := testkit.Completion("", 0)
	req.Prompts, req.MaxTokens, req.Chat, req.ReturnTokenIDs = nil, nil, userMessage("a<|begin|>b"), true
	a := generate(t, e, req)
	want := append([]int32{testkit.BOS}, append([]int32("user:a<|begin|>b"), testkit.BOS)...)
	require.Equal(t, want, a.choices[0].prompt.TokenIDs, "the template's control tokens, and the client's as plain text")
	require.Equal(t, len(want), a.final.Usage.NumPromptTokens)

	tokens, err := e.Tokenize(context.Background(), &infer.TokenizeRequest{Chat: req.Chat, ReturnTokenStrs: true})
	require.NoError(t, err)
	require.Equal(t, want, tokens.TokenIDs)
	require.Equal(t, "<|begin|>", tokens.TokenStrs[0])
}

func TestBrokenModelTemplate(t *testing.T) {
	e := newScripted(t, func(c *actors.Config) { c.TemplateErr = errors.New("unexpected endfor on line 3") })
	req := testkit.Completion("", 8)
	req.Prompts, req.Chat = nil, userMessage("hi")
	_, err := e.Generate(context.Background(), req)
	requireError(t, err, infer.CodeInvalid, "unexpected endfor on line 3")
	require.Nil(t, generate(t, e, testkit.Completion("hello", 8)).final.Err, "completions need no template")
}

func TestTokenizeAndBack(t *testing.T) {
	e := newScripted(t, nil)
	text := "aé<|end|>"
	result, err := e.Tokenize(context.Background(), &infer.TokenizeRequest{Text: &text})
	require.NoError(t, err)
	require.Equal(t, []int32{'a', 195, 169, testkit.EOS}, result.TokenIDs)
	require.Nil(t, result.TokenStrs)
	back, err := e.Detokenize(context.Background(), result.TokenIDs)
	require.NoError(t, err)
	require.Equal(t, text, back)
	_, err = e.Detokenize(context.Background(), []int32{1, 258})
	require.Equal(t, "tokens", requireError(t, err, infer.CodeInvalid, "258").Param)
}

func TestConfigIsChecked(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{})
	good := actors.Config{Tokenizer: testkit.Tokenizer(), NewRunner: d.NewRunner, Model: testkit.Model(), Scheduler: testkit.SchedulerConfig()}
	for part, change := range map[string]func(*actors.Config){
		"Tokenizer":    func(c *actors.Config) { c.Tokenizer = nil },
		"NewRunner":    func(c *actors.Config) { c.NewRunner = nil },
		"ServedNames":  func(c *actors.Config) { c.Model.ServedNames = nil },
		"MaxModelLen":  func(c *actors.Config) { c.Model.MaxModelLen = 0 },
		"max_num_seqs": func(c *actors.Config) { c.Scheduler.MaxNumSeqs = 0 },
	} {
		c := good
		change(&c)
		_, err := actors.NewEngine(c)
		require.ErrorContains(t, err, part)
	}
	require.Nil(t, d.Runner(), "what was opened is closed")
}

// A cache smaller than one context lowers the context: nothing is admitted that
// could never run.
func TestSmallCacheLowersTheContext(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{NumBlocks: 8})
	e := startEngine(t, d, nil)
	require.Equal(t, 32, e.Model().MaxModelLen)
	_, err := e.Generate(context.Background(), testkit.Completion("hello", 28))
	requireError(t, err, infer.CodeContextLength, "maximum context length is 32 tokens")
	req := testkit.Completion("hello", 27)
	req.Sampling.IgnoreEOS = true
	require.Len(t, generate(t, e, req).choices[0].tokenIDs, 27)
}
