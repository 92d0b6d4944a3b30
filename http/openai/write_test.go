package openai_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func known(v float64) infer.NullFloat { return infer.NullFloat{Value: v, Valid: true} }

// token is one position with k alternatives, the token itself the first of them.
func token(id int32, text string, alternatives ...string) infer.TokenLogprobs {
	p := infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: id, Logprob: -0.5, Rank: 1, Text: text}}
	for i, alt := range alternatives {
		t := infer.TokenLogprob{TokenID: 100 + int32(i), Logprob: -2, Rank: int32(i) + 1, Text: alt}
		if i == 0 {
			t = p.Token
		}
		p.Top = append(p.Top, t)
	}
	return p
}

// stream writes deltas and a final as one answer.
func stream(call *openai.Call, final *infer.Final, deltas ...infer.Delta) string {
	s := call.Reply.NewStream()
	var b []byte
	for i := range deltas {
		b = s.AppendDelta(b, &deltas[i])
	}
	return string(s.AppendFinal(b, final))
}

func body(call *openai.Call, final *infer.Final, deltas ...infer.Delta) string {
	c := call.Reply.NewCollector()
	for i := range deltas {
		c.Add(&deltas[i])
	}
	return string(c.AppendBody(nil, final))
}

const (
	chatHead = `data: {"id":"chatcmpl-0123","object":"chat.completion.chunk","created":1700000000,"model":"understudy","choices":[`
	textHead = `data: {"id":"cmpl-0123","object":"text_completion","created":1700000000,"model":"understudy","choices":[`
)

func lines(l ...string) string { return strings.Join(l, "\n\n") + "\n\n" }

func TestChatStreamExactly(t *testing.T) {
	p := profile()
	p.PerRequestMetrics, p.SystemFingerprint = true, "fp"
	call, err := openai.ParseChat([]byte(chat(`"stream":true,"stream_options":{"include_usage":true}`)), p, envelope())
	require.NoError(t, err)
	final := &infer.Final{
		Usage:   infer.Usage{NumPromptTokens: 9, NumCompletionTokens: 3},
		Metrics: &infer.RequestMetrics{TimeToFirstTokenMs: known(300), GenerationTimeMs: known(0), QueueTimeMs: known(0.25), TokensPerSecond: known(1e-9)},
	}
	got := stream(call, final,
		infer.Delta{TokenIDs: []int32{5}, NumOutputTokens: 1}, // half a character: nothing to say yet
		infer.Delta{Text: " é\n\"", TokenIDs: []int32{6}, NumOutputTokens: 2},
		infer.Delta{NumOutputTokens: 3, FinishReason: infer.FinishStop},
	)
	require.Equal(t, lines(
		chatHead+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		chatHead+`{"index":0,"delta":{"content":" é\n\""},"logprobs":null,"finish_reason":null}]}`,
		chatHead+`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
		chatHead+`],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3},"system_fingerprint":"fp",`+
			`"metrics":{"time_to_first_token_ms":300.0,"generation_time_ms":0.0,"queue_time_ms":0.25,"mean_itl_ms":null,"tokens_per_second":0.000000001}}`,
		`data: [DONE]`,
	), got)
}

func TestChatStreamOfSeveralChoices(t *testing.T) {
	p := profile()
	p.PerRequestMetrics, p.SystemFingerprint = true, "fp"
	call, err := openai.ParseChat([]byte(chat(`"stream":true,"n":2,"return_token_ids":true`)), p, envelope())
	require.NoError(t, err)
	got := stream(call, &infer.Final{},
		infer.Delta{Index: 1, Text: "b", TokenIDs: []int32{2}, Prompt: &infer.PromptInfo{TokenIDs: []int32{8, 9}}},
		infer.Delta{Index: 1, FinishReason: infer.FinishStop, StopReason: infer.StopReason{Text: "END"}},
		infer.Delta{Index: 0, Text: "a", TokenIDs: []int32{1}, FinishReason: infer.FinishStop, StopReason: infer.StopReason{ByToken: true, TokenID: 0}},
	)
	require.Equal(t, lines(
		chatHead+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[8,9]}`,
		chatHead+`{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[8,9]}`,
		chatHead+`{"index":1,"delta":{"content":"b"},"logprobs":null,"finish_reason":null,"token_ids":[2]}]}`,
		chatHead+`{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"END","token_ids":[]}]}`,
		chatHead+`{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":"stop","stop_reason":0,"token_ids":[1]}],"system_fingerprint":"fp"}`,
		`data: [DONE]`,
	), got, "no usage chunk: no metrics, and the fingerprint is on the last chunk")
}

func TestSuppressedMetrics(t *testing.T) {
	p := profile()
	p.PerRequestMetrics = true
	fields := `"stream":true,"stream_options":{"include_usage":true}`
	call, err := openai.ParseChat([]byte(chat(fields)), p, envelope())
	require.NoError(t, err)
	require.Contains(t, stream(call, &infer.Final{}), `"choices":[],"usage":{"prompt_tokens":0,"total_tokens":0,"completion_tokens":0},"metrics":null}`)
	require.Contains(t, body(call, &infer.Final{}), `"metrics":null}`)
	require.Contains(t, body(call, &infer.Final{Metrics: &infer.RequestMetrics{}}), `"metrics":{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null}}`)
	off := parseChat(t, chat(fields))
	require.NotContains(t, stream(off, &infer.Final{Metrics: &infer.RequestMetrics{}}), "metrics")
	require.NotContains(t, body(off, &infer.Final{Metrics: &infer.RequestMetrics{}}), "metrics")
}

func TestContinuousUsage(t *testing.T) {
	p := profile()
	p.PromptTokensDetails = true
	call, err := openai.ParseCompletion([]byte(completion(`"prompt":["a","bc"],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)), p, envelope())
	require.NoError(t, err)
	got := stream(call, &infer.Final{Usage: infer.Usage{NumPromptTokens: 3, NumCompletionTokens: 3}},
		infer.Delta{Text: "x", NumOutputTokens: 1, Prompt: &infer.PromptInfo{TokenIDs: []int32{1}}},
		infer.Delta{Index: 1, NumOutputTokens: 0, Prompt: &infer.PromptInfo{TokenIDs: []int32{1, 2}}}, // nothing to say
		infer.Delta{Index: 1, Text: "y", NumOutputTokens: 1, FinishReason: infer.FinishLength},
		infer.Delta{Text: "z", NumOutputTokens: 2, FinishReason: infer.FinishLength},
	)
	require.Equal(t, lines(
		textHead+`{"index":0,"text":"x","logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1}}`,
		textHead+`{"index":1,"text":"y","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":2,"total_tokens":3,"completion_tokens":1}}`,
		textHead+`{"index":0,"text":"z","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}`,
		textHead+`],"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}`,
		`data: [DONE]`,
	), got)
}

func TestErrorInMidStream(t *testing.T) {
	call := parseChat(t, chat(`"stream":true,"stream_options":{"include_usage":true}`))
	got := stream(call, &infer.Final{Err: infer.Internal(bytes.ErrTooLarge)}, infer.Delta{Text: "x", NumOutputTokens: 1})
	require.True(t, strings.HasSuffix(got, lines(
		chatHead+`{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]}`,
		`data: {"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500,"reason":"internal_error","request_id":"chatcmpl-0123"}}`,
		`data: [DONE]`,
	)), got)
	require.NotContains(t, got, "usage")
}

func TestChatBodyExactly(t *testing.T) {
	call := parseChat(t, chat(""))
	got := body(call, &infer.Final{Usage: infer.Usage{NumPromptTokens: 3, NumCompletionTokens: 2}},
		infer.Delta{Text: "Hel"}, infer.Delta{Text: "lo", FinishReason: infer.FinishStop})
	require.Equal(t, `{"id":"chatcmpl-0123","object":"chat.completion","created":1700000000,"model":"understudy","choices":[{"index":0,`+
		`"message":{"role":"assistant","content":"Hello","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},`+
		`"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,`+
		`"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null},`+
		`"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null}`, got)
}

func TestCompletionBodyExactly(t *testing.T) {
	call := parseCompletion(t, completion(`"prompt":["a","b"],"return_token_ids":true`))
	got := body(call, &infer.Final{Usage: infer.Usage{NumPromptTokens: 2, NumCompletionTokens: 2}},
		infer.Delta{Index: 1, Text: "y", TokenIDs: []int32{4}, FinishReason: infer.FinishLength, Prompt: &infer.PromptInfo{TokenIDs: []int32{2}}},
		infer.Delta{Index: 0, Text: "x", TokenIDs: []int32{3}, FinishReason: infer.FinishAbort, Prompt: &infer.PromptInfo{TokenIDs: []int32{1}}})
	require.Equal(t, `{"id":"cmpl-0123","object":"text_completion","created":1700000000,"model":"understudy","choices":[`+
		`{"index":0,"text":"x","logprobs":null,"finish_reason":"abort","stop_reason":null,"token_ids":[3],"prompt_logprobs":null,"prompt_token_ids":[1]},`+
		`{"index":1,"text":"y","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":[4],"prompt_logprobs":null,"prompt_token_ids":[2]}],`+
		`"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null},`+
		`"kv_transfer_params":null}`, got)
}

func TestChatEcho(t *testing.T) {
	conversation := `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"It is"}],"echo":true,"stream":true,"add_generation_prompt":false}`
	call := parseChat(t, conversation)
	delta := infer.Delta{Text: " so", FinishReason: infer.FinishStop}
	require.Contains(t, stream(call, &infer.Final{}, delta),
		`"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"+chatHead+`{"index":0,"delta":{"content":"It is"},`)
	require.Contains(t, body(call, &infer.Final{}, delta), `"content":"It is so"`)
}

func TestChatLogprobs(t *testing.T) {
	call := parseChat(t, chat(`"logprobs":true,"top_logprobs":2,"stream":true`))
	first, second := token(1, "\xf0\x9f", "\xf0\x9f", "a\"\xff"), token(2, "\x98\x80!", "\x98\x80!")
	second.Token.Logprob = float32(math.Inf(-1))
	second.Top = append(second.Top, infer.TokenLogprob{TokenID: 9, Logprob: -1e-7, Text: "b"})
	entries := `{"token":"","logprob":-0.5,"bytes":[240,159],"top_logprobs":[` +
		`{"token":"","logprob":-0.5,"bytes":[240,159]},{"token":"bytes:\\x61\\x22\\xff","logprob":-2.0,"bytes":[97,34,255]}]},` +
		`{"token":"😀!","logprob":-9999.0,"bytes":[152,128,33],"top_logprobs":[` +
		`{"token":"😀!","logprob":-0.5,"bytes":[152,128,33]},{"token":"b","logprob":-0.0000001,"bytes":[98]}]}`
	last := infer.Delta{FinishReason: infer.FinishStop, Text: "😀!", Logprobs: []infer.TokenLogprobs{second}}
	require.Contains(t, body(call, &infer.Final{}, infer.Delta{Logprobs: []infer.TokenLogprobs{first}}, last), `"logprobs":{"content":[`+entries+`]}`)
	streamed := stream(call, &infer.Final{}, infer.Delta{Logprobs: []infer.TokenLogprobs{first}}, last)
	require.Equal(t, entries, strings.Join(contents(t, streamed), ","), "a stream's entries are the body's")
}

// contents returns the logprobs entries of a chat stream as they were written.
func contents(t *testing.T, streamed string) []string {
	t.Helper()
	var entries []string
	for event := range strings.SplitSeq(streamed, "\n\n") {
		_, after, ok := strings.Cut(event, `"logprobs":{"content":[`)
		if ok {
			entry, _, ok := strings.Cut(after, `]},"finish_reason"`)
			require.True(t, ok)
			entries = append(entries, entry)
		}
	}
	return entries
}

func TestCompletionEchoLogprobs(t *testing.T) {
	call := parseCompletion(t, completion(`"echo":true,"logprobs":1,"max_tokens":2`))
	prompt := &infer.PromptInfo{Text: "né", Logprobs: []infer.TokenLogprobs{
		{Token: infer.TokenLogprob{TokenID: 3, Text: "n"}},
		token(4, "\xc3", "\xc3"), token(5, "\xa9", "\xa9", "x"),
	}}
	deltas := []infer.Delta{
		{Text: "", Prompt: prompt, Logprobs: []infer.TokenLogprobs{token(6, " a", " a", " a")}}, // two tokens of one string
		{Text: " ab", Logprobs: []infer.TokenLogprobs{token(7, "b")}, FinishReason: infer.FinishLength},
	}
	require.Contains(t, body(call, &infer.Final{}, deltas...), `"text":"né ab","logprobs":{"text_offset":[0,1,1,2,4],"token_logprobs":[null,-0.5,-0.5,-0.5,-0.5],`+
		`"tokens":["n","","é"," a","b"],"top_logprobs":[null,{"":-0.5},{"é":-0.5,"x":-2.0},{" a":-0.5},{"b":-0.5}]}`)
	streamed := stream(call, &infer.Final{}, deltas...)
	require.Contains(t, streamed, `"text":"né","logprobs":{"text_offset":[0,1,1,2],`)
	require.Contains(t, streamed, `"text":" ab","logprobs":{"text_offset":[4],"token_logprobs":[-0.5],"tokens":["b"],"top_logprobs":[{"b":-0.5}]}`)
}

func TestPromptLogprobsAndTokenIDNames(t *testing.T) {
	call := parseChat(t, chat(`"prompt_logprobs":1,"logprobs":true,"return_tokens_as_token_ids":true`))
	prompt := &infer.PromptInfo{Logprobs: []infer.TokenLogprobs{{}, token(4, "a", "a", "b")}}
	got := body(call, &infer.Final{}, infer.Delta{Prompt: prompt, Logprobs: []infer.TokenLogprobs{token(4, "a", "a", "b")}})
	require.Contains(t, got, `"prompt_logprobs":[null,{"4":{"logprob":-0.5,"rank":1,"decoded_token":"a"},"101":{"logprob":-2.0,"rank":2,"decoded_token":"b"}}]`)
	require.Contains(t, got, `{"token":"token_id:4","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"token_id:4","logprob":-0.5,"bytes":[97]},{"token":"token_id:101",`)
}

func TestBodiesAreJSON(t *testing.T) {
	call := parseChat(t, chat(`"logprobs":true,"n":2`))
	got := body(call, &infer.Final{}, infer.Delta{Text: "\x00\u2028\x7f", Logprobs: []infer.TokenLogprobs{token(1, "\x00")}})
	require.True(t, json.Valid([]byte(got)), got)
	model := profile().Model
	for _, b := range [][]byte{
		openai.AppendModels(nil, model, 5),
		openai.AppendTokenized(nil, &infer.TokenizeResult{TokenIDs: []int32{1}, TokenStrs: []string{"Ġ\""}}, model),
		openai.AppendTokenized(nil, &infer.TokenizeResult{}, model),
		openai.AppendDetokenized(nil, "\"\n"),
	} {
		require.True(t, json.Valid(b), string(b))
	}
	require.Equal(t, `{"count":1,"max_model_len":2048,"tokens":[7],"token_strs":null}`,
		string(openai.AppendTokenized(nil, &infer.TokenizeResult{TokenIDs: []int32{7}}, model)))
}

func TestErrorTable(t *testing.T) {
	for _, c := range []struct {
		code   infer.Code
		status int
		kind   string
		reason string
	}{
		{infer.CodeMalformed, 400, "Bad Request", "invalid_request_error"},
		{infer.CodeInvalid, 400, "BadRequestError", "invalid_request_error"},
		{infer.CodeContextLength, 400, "BadRequestError", "context_length_exceeded"},
		{infer.CodeModelNotFound, 404, "NotFoundError", "model_not_found"},
		{infer.CodeNotFound, 404, "Not Found", "invalid_request_error"},
		{infer.CodeTooLarge, 413, "Request Entity Too Large", "invalid_request_error"},
		{infer.CodeUnprocessable, 422, "UnprocessableEntityError", "invalid_request_error"},
		{infer.CodeRateLimited, 429, "Too Many Requests", "rate_limit_exceeded"},
		{infer.CodeNotImplemented, 501, "NotImplementedError", "invalid_request_error"},
		{infer.CodeOverloaded, 503, "Service Unavailable", "server_overloaded"},
		{infer.CodeUnavailable, 503, "Service Unavailable", "server_overloaded"},
	} {
		p := openai.FromError(infer.Errorf(c.code, "f", "m"))
		require.Equal(t, openai.Problem{Status: c.status, Type: c.kind, Reason: c.reason, Param: "f", Message: "m"}, p)
	}
	for _, code := range []infer.Code{infer.CodeInternal, "made up"} {
		p := openai.FromError(&infer.Error{Code: code, Param: "f", Message: "secret"})
		require.Equal(t, openai.Problem{Status: 500, Type: "InternalServerError", Reason: "internal_error", Message: "Internal server error"}, p)
	}
}

func TestNoAllocationPerDelta(t *testing.T) {
	for name, fields := range map[string]string{
		"plain": `"stream":true`, "running usage": `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`,
		"logprobs": `"stream":true,"logprobs":%s`,
	} {
		for kind, call := range map[string]*openai.Call{
			"chat":       parseChat(t, chat(strings.Replace(fields, "%s", "true", 1))),
			"completion": parseCompletion(t, completion(strings.Replace(fields, "%s", "2", 1))),
		} {
			s := call.Reply.NewStream()
			d := infer.Delta{Text: " größer\n", TokenIDs: []int32{1}, NumOutputTokens: 1, Prompt: &infer.PromptInfo{TokenIDs: []int32{1}}}
			if name == "logprobs" {
				d.Logprobs = []infer.TokenLogprobs{token(1, " gr\xc3", " gr\xc3", "x")}
			}
			buf := s.AppendDelta(make([]byte, 0, 4096), &d)
			require.Zero(t, testing.AllocsPerRun(100, func() { buf = s.AppendDelta(buf[:0], &d) }), "%s %s", kind, name)
		}
	}
}
