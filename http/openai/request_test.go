package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func TestNeutralDefaults(t *testing.T) {
	call := parseChat(t, chat(""))
	require.Equal(t, &infer.Request{
		ID: "chatcmpl-0123", Arrival: 7, N: 1,
		Chat:           &infer.ChatInput{Messages: []json.RawMessage{json.RawMessage(`{"role":"user","content":"Hi"}`)}, AddGenerationPrompt: true},
		MaxTokensParam: "max_tokens",
		Sampling: infer.SamplingParams{
			Temperature: 1, TopP: 1, RepetitionPenalty: 1, NumLogprobs: -1, NumPromptLogprobs: -1, SkipSpecialTokens: true,
		},
	}, call.Request)
	require.Equal(t, "understudy", call.Reply.Model, "the first served name, whatever was sent")
	require.Equal(t, 1, call.Reply.NumChoices)
}

func TestModelDefaultsStandBetweenRequestAndNeutral(t *testing.T) {
	ptr := func(f float64) *float64 { return &f }
	topK, maxNew := 40, 8
	p := profile()
	p.Model.Defaults = infer.SamplingDefaults{
		Temperature: ptr(0.6), TopP: ptr(0.9), MinP: ptr(0.05), RepetitionPenalty: ptr(1.1), TopK: &topK, MaxNewTokens: &maxNew,
	}
	call, err := openai.ParseChat([]byte(chat(`"top_p":0.5,"max_tokens":100`)), p, envelope())
	require.NoError(t, err)
	s := call.Request.Sampling
	require.Equal(t, []float64{0.6, 0.5, 0.05, 1.1}, []float64{s.Temperature, s.TopP, s.MinP, s.RepetitionPenalty})
	require.Equal(t, 40, s.TopK)
	require.Equal(t, 8, *call.Request.MaxTokens, "capped by the model's own limit")
	call, err = openai.ParseChat([]byte(chat(`"temperature":0`)), p, envelope())
	require.NoError(t, err)
	require.True(t, call.Request.Sampling.IsGreedy(), "an explicit 0 is a value")
	require.Nil(t, call.Request.MaxTokens, "left to the engine, which knows the prompt's length")
}

func TestTemperatureSteps(t *testing.T) {
	for sent, want := range map[string]float64{"0": 0, "0.000009": 0, "0.00001": 0.01, "0.009": 0.01, "0.01": 0.01, "0.5": 0.5, "2": 2, "1e0": 1} {
		call := parseCompletion(t, completion(`"temperature":`+sent))
		require.InDelta(t, want, call.Request.Sampling.Temperature, 0, sent)
	}
}

func TestSamplingFields(t *testing.T) {
	call := parseCompletion(t, completion(`"seed":-5,"n":3,"stop":["a","b"],"stop_token_ids":[3,1],"logit_bias":{"7":-200,"2":1.5,"7":3},`+
		`"allowed_token_ids":[5,2,5],"bad_words":"no","min_tokens":2,"max_tokens":5.0,"ignore_eos":true,"include_stop_str_in_output":true,`+
		`"skip_special_tokens":false,"truncate_prompt_tokens":-1,"truncation_side":"right","cache_salt":"s","vllm_xargs":{"a":1,"b":"x"},"add_special_tokens":false,"stream_interval":4`))
	r := call.Request
	seed := int64(-5)
	require.Equal(t, infer.SamplingParams{
		Temperature: 1, TopP: 1, RepetitionPenalty: 1, Seed: uint64(seed), MinTokens: 2,
		Stop: []string{"a", "b"}, StopTokenIDs: []int32{3, 1}, IgnoreEOS: true, IncludeStopStrInOutput: true,
		LogitBias:       []infer.TokenBias{{TokenID: 2, Bias: 1.5}, {TokenID: 7, Bias: 3}},
		AllowedTokenIDs: []int32{2, 5}, NumLogprobs: -1, NumPromptLogprobs: -1,
		ExtraArgs: map[string]string{"a": "1", "b": `"x"`},
	}, r.Sampling)
	require.True(t, r.SeedGiven)
	require.Equal(t, []string{"no"}, r.BadWords)
	require.Equal(t, 3, r.N)
	require.Equal(t, 5, *r.MaxTokens)
	require.Equal(t, -1, *r.TruncatePromptTokens)
	require.True(t, r.TruncateRight)
	require.Equal(t, "s", r.CacheSalt)
	require.False(t, r.AddSpecialTokens)
	require.Equal(t, 4, r.StreamInterval)
	require.False(t, parseCompletion(t, completion(`"seed":-1`)).Request.SeedGiven)
}

func TestMaxTokens(t *testing.T) {
	newer := parseChat(t, chat(`"max_completion_tokens":5,"max_tokens":9`)).Request
	require.Equal(t, 5, *newer.MaxTokens)
	require.Equal(t, "max_completion_tokens", newer.MaxTokensParam)
	require.Nil(t, parseCompletion(t, completion(`"max_tokens":null`)).Request.MaxTokens)
	require.Equal(t, 0, *parseCompletion(t, completion(`"max_tokens":0,"echo":true`)).Request.MaxTokens)
}

func TestLogprobs(t *testing.T) {
	for _, c := range []struct {
		fields         string
		sample, prompt int
	}{
		{`"echo":true`, -1, -1},
		{`"logprobs":0`, 0, -1},
		{`"logprobs":3,"echo":true`, 3, 3},
		{`"logprobs":3,"echo":true,"prompt_logprobs":1`, 3, 1},
		{`"prompt_logprobs":0`, -1, 0},
	} {
		s := parseCompletion(t, completion(c.fields)).Request.Sampling
		require.Equal(t, []int{c.sample, c.prompt}, []int{s.NumLogprobs, s.NumPromptLogprobs}, c.fields)
	}
	require.Equal(t, 0, parseChat(t, chat(`"logprobs":true`)).Request.Sampling.NumLogprobs)
	require.Equal(t, 5, parseChat(t, chat(`"logprobs":true,"top_logprobs":5`)).Request.Sampling.NumLogprobs)
	require.Equal(t, -1, parseChat(t, chat(`"logprobs":false,"top_logprobs":0`)).Request.Sampling.NumLogprobs)
	p := profile()
	p.MaxLogprobs = -1
	call, err := openai.ParseChat([]byte(chat(`"logprobs":true,"top_logprobs":-1`)), p, envelope())
	require.NoError(t, err)
	require.Equal(t, 512, call.Request.Sampling.NumLogprobs)
}

func TestPromptForms(t *testing.T) {
	for body, want := range map[string][]infer.Prompt{
		`{"prompt":"x\u0000\ud83d\uffff"}`: {{Text: "x\x00\uFFFD\uffff"}},
		`{"prompt":["x"]}`:                 {{Text: "x"}},
		`{"prompt":["x","y"]}`:             {{Text: "x"}, {Text: "y"}},
		`{"prompt":[1,2.0]}`:               {{TokenIDs: []int32{1, 2}}},
		`{"prompt":[[1,2],[3]]}`:           {{TokenIDs: []int32{1, 2}}, {TokenIDs: []int32{3}}},
	} {
		call := parseCompletion(t, body)
		require.Equal(t, want, call.Request.Prompts, body)
		require.Equal(t, len(want), call.Reply.NumChoices)
	}
}

func TestUsageModes(t *testing.T) {
	for _, c := range []struct {
		fields           string
		forced           bool
		usage, continues bool
	}{
		{`"stream":true`, false, false, false},
		{`"stream":true,"stream_options":{}`, false, false, false},
		{`"stream":true,"stream_options":{"include_usage":true}`, false, true, false},
		{`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, false, true, true},
		{`"stream":true,"stream_options":{"continuous_usage_stats":true}`, false, false, false},
		{`"stream":true,"stream_options":{"include_usage":false}`, true, true, true},
	} {
		p := profile()
		p.ForceIncludeUsage = c.forced
		call, err := openai.ParseChat([]byte(chat(c.fields)), p, envelope())
		require.NoError(t, err)
		require.Equal(t, []bool{c.usage, c.continues}, []bool{call.Reply.IncludeUsage, call.Reply.ContinuousUsage}, c.fields)
		require.Equal(t, c.continues, call.Request.ReturnTokenIDs, "running counts need the prompt's length")
	}
}

func TestRequestIDs(t *testing.T) {
	e := envelope()
	for _, c := range []struct{ header, body, want string }{
		{"", "", "cmpl-0123"}, {"", "mine", "cmpl-mine"}, {"theirs", "mine", "cmpl-theirs"},
	} {
		e.RequestID = c.header
		call, err := openai.ParseCompletion([]byte(`{"prompt":"x","request_id":"`+c.body+`"}`), profile(), e)
		require.NoError(t, err)
		require.Equal(t, c.want, call.Reply.ID)
		require.Equal(t, c.want, call.Request.ID)
	}
	e.RequestID = "a\tb"
	_, err := openai.ParseCompletion([]byte(completion("")), profile(), e)
	require.ErrorContains(t, err, "X-Request-Id")
}

func TestPriority(t *testing.T) {
	p, e := profile(), envelope()
	p.PriorityScheduling, e.Priority = true, "-3"
	call, err := openai.ParseChat([]byte(chat(`"priority":5`)), p, e)
	require.NoError(t, err)
	require.Equal(t, -3, call.Request.Priority, "the header wins")
	e.Priority = "high"
	_, err = openai.ParseChat([]byte(chat("")), p, e)
	require.ErrorContains(t, err, "X-Vllm-Priority")
}

func TestMessagesAreKeptAsSent(t *testing.T) {
	body := []byte(`{"messages":[ {"role":"system","content":[{"type":"text","text":"a"},"b",{"type":"refusal","refusal":"c"}]},{"role":"assistant","tool_calls":[{"z":1,"a":2}]} ,` +
		`{"role":"tool","content":"\ud83d ok","name":"t\ud83d"}],"add_generation_prompt":false,"continue_final_message":true,"chat_template_kwargs":{"b":1,"a":2},"chat_template":"T"}`)
	call, err := openai.ParseChat(body, profile(), envelope())
	require.NoError(t, err)
	clear(body)
	in := call.Request.Chat
	require.Equal(t, `{"role":"assistant","tool_calls":[{"z":1,"a":2}]}`, string(in.Messages[1]))
	require.Equal(t, `{"role":"tool","content":"\ud83d ok","name":"t\ud83d"}`, string(in.Messages[2]))
	require.JSONEq(t, `{"b":1,"a":2}`, string(in.TemplateKwargs))
	require.True(t, in.ContinueFinalMessage)
	require.Equal(t, "T", in.Template)
	require.Equal(t, "tool", call.Reply.Role, "without a generation prompt the last message's role goes on")
}

func TestTokenizeForms(t *testing.T) {
	r, err := openai.ParseTokenize([]byte(`{"prompt":"","return_token_strs":true,"model":"alias"}`), profile())
	require.NoError(t, err)
	empty := ""
	require.Equal(t, &infer.TokenizeRequest{Text: &empty, AddSpecialTokens: true, ReturnTokenStrs: true}, r)
	r, err = openai.ParseTokenize([]byte(chat(`"tools":[{"a":1}]`)), profile())
	require.NoError(t, err)
	require.False(t, r.AddSpecialTokens)
	require.True(t, r.Chat.AddGenerationPrompt)
	require.Equal(t, `[{"a":1}]`, string(r.Chat.Tools))
	for _, body := range []string{`{}`, `{"prompt":1}`, `{"prompt":"x","messages":[{"role":"user","content":"x"}]}`} {
		_, err = openai.ParseTokenize([]byte(body), profile())
		require.Error(t, err, body)
	}
	ids, err := openai.ParseDetokenize([]byte(`{"tokens":[1,2]}`), profile())
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, ids)
	for _, body := range []string{`{}`, `{"tokens":[512]}`, `{"tokens":"x"}`} {
		_, err = openai.ParseDetokenize([]byte(body), profile())
		require.Error(t, err, body)
	}
}
