package openai_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func profile() *openai.Profile {
	return &openai.Profile{
		Model: &infer.ModelInfo{
			ServedNames: []string{"understudy", "alias"}, Root: "understudy", MaxModelLen: 2048, VocabSize: 512,
		},
		MaxLogprobs: 20, MaxNumSequences: 16384, MaxStopStrings: 16, ResponseRole: "assistant",
	}
}

func envelope() openai.Envelope {
	return openai.Envelope{NewID: "0123", Created: 1700000000, Arrival: 7}
}

func chat(fields string) string {
	return `{"messages":[{"role":"user","content":"Hi"}]` + comma(fields) + `}`
}

func completion(fields string) string { return `{"prompt":"Hi"` + comma(fields) + `}` }

func comma(fields string) string {
	if fields == "" {
		return ""
	}
	return "," + fields
}

func parseChat(t *testing.T, body string) *openai.Call {
	t.Helper()
	call, err := openai.ParseChat([]byte(body), profile(), envelope())
	require.NoError(t, err)
	return call
}

func parseCompletion(t *testing.T, body string) *openai.Call {
	t.Helper()
	call, err := openai.ParseCompletion([]byte(body), profile(), envelope())
	require.NoError(t, err)
	return call
}

func ints(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }

func strs(n int) string { return strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") }

// refusal is a field that both endpoints refuse.
type refusal struct {
	fields string
	code   infer.Code
	param  string
	text   string // part of the message
}

var refusals = []refusal{
	{`"model":1`, infer.CodeMalformed, "model", "must be a string, got a number: 1"},
	{`"model":"nope"`, infer.CodeModelNotFound, "model", "The model `nope` does not exist"},
	{`"model":"a\ud83d"`, infer.CodeModelNotFound, "model", "`a\uFFFD`"},
	{`"stream":"yes"`, infer.CodeMalformed, "stream", "must be a boolean, got a string"},
	{`"stream_options":{"include_usage":true}`, infer.CodeMalformed, "stream_options", "stream: true"},
	{`"stream":true,"stream_options":[]`, infer.CodeMalformed, "stream_options", "an object"},
	{`"stream":true,"stream_options":{"include_usage":1}`, infer.CodeMalformed, "stream_options.include_usage", "a boolean"},
	{`"temperature":-3`, infer.CodeInvalid, "temperature", "[0, 2], got -3"},
	{`"temperature":2.01`, infer.CodeInvalid, "temperature", "got 2.01"},
	{`"temperature":1e999`, infer.CodeMalformed, "temperature", "finite"},
	{`"temperature":"hot"`, infer.CodeMalformed, "temperature", `"hot"`},
	{`"top_p":0`, infer.CodeInvalid, "top_p", "greater than 0"},
	{`"top_p":1.5`, infer.CodeInvalid, "top_p", "(0, 1]"},
	{`"top_k":-2`, infer.CodeInvalid, "top_k", "got -2"},
	{`"top_k":1.5`, infer.CodeMalformed, "top_k", "an integer, got a number: 1.5"},
	{`"top_k":99999999999999999999`, infer.CodeMalformed, "top_k", "within range"},
	{`"min_p":2`, infer.CodeInvalid, "min_p", "[0, 1]"},
	{`"presence_penalty":-2.5`, infer.CodeInvalid, "presence_penalty", "[-2, 2]"},
	{`"frequency_penalty":3`, infer.CodeInvalid, "frequency_penalty", "[-2, 2]"},
	{`"repetition_penalty":0`, infer.CodeInvalid, "repetition_penalty", "greater than 0"},
	{`"n":0`, infer.CodeInvalid, "n", "between 1 and 16384, got 0"},
	{`"n":16385`, infer.CodeInvalid, "n", "got 16385"},
	{`"n":1000000000000`, infer.CodeMalformed, "n", "got 1000000000000"},
	{`"n":2,"temperature":0`, infer.CodeInvalid, "n", "greedy"},
	{`"seed":18446744073709551616`, infer.CodeMalformed, "seed", "within range"},
	{`"stop":[""]`, infer.CodeInvalid, "stop", "empty"},
	{`"stop":""`, infer.CodeInvalid, "stop", "empty"},
	{`"stop":7`, infer.CodeMalformed, "stop", "a string or a list"},
	{`"stop":["a",7]`, infer.CodeMalformed, "stop[1]", "a string"},
	{`"stop":[` + strs(17) + `]`, infer.CodeInvalid, "stop", "more than 16"},
	{`"stop":"` + strings.Repeat("x", 5000) + `"`, infer.CodeInvalid, "stop", "5000 bytes, the limit is 4096"},
	{`"stop_token_ids":[512]`, infer.CodeInvalid, "stop_token_ids", "token id 512 is outside the vocabulary: ids are 0 to 511"},
	{`"stop_token_ids":[` + ints(1025) + `]`, infer.CodeInvalid, "stop_token_ids", "more than 1024"},
	{`"logit_bias":{"512":1}`, infer.CodeInvalid, "logit_bias", "512"},
	{`"logit_bias":{"x":1}`, infer.CodeInvalid, "logit_bias", `"x" is not a token id`},
	{`"logit_bias":{"1":"x"}`, infer.CodeMalformed, `logit_bias["1"]`, "number"},
	{`"bad_words":["a",""]`, infer.CodeInvalid, "bad_words", "empty"},
	{`"allowed_token_ids":[]`, infer.CodeInvalid, "allowed_token_ids", "empty"},
	{`"allowed_token_ids":[-1]`, infer.CodeInvalid, "allowed_token_ids", "-1"},
	{`"truncate_prompt_tokens":-2`, infer.CodeInvalid, "truncate_prompt_tokens", "-2"},
	{`"truncate_prompt_tokens":2049`, infer.CodeInvalid, "truncate_prompt_tokens", "2048"},
	{`"truncation_side":"middle"`, infer.CodeMalformed, "truncation_side", "middle"},
	{`"prompt_logprobs":1,"stream":true`, infer.CodeMalformed, "prompt_logprobs", "stream"},
	{`"prompt_logprobs":21`, infer.CodeInvalid, "prompt_logprobs", "greater than max allowed: 20"},
	{`"prompt_logprobs":-2`, infer.CodeInvalid, "prompt_logprobs", "-2"},
	{`"use_beam_search":true`, infer.CodeNotImplemented, "use_beam_search", "not supported"},
	{`"structured_outputs":{}`, infer.CodeInvalid, "structured_outputs", "exactly one"},
	{`"structured_outputs":{"regex":"a","choice":["a"]}`, infer.CodeInvalid, "structured_outputs", "got 2"},
	{`"structured_outputs":{"regex":7}`, infer.CodeMalformed, "structured_outputs", "a string"},
	{`"structured_outputs":{"choice":[]}`, infer.CodeInvalid, "structured_outputs", "at least one"},
	{`"structured_outputs":{"choice":["a",1]}`, infer.CodeMalformed, "structured_outputs", "a string"},
	{`"structured_outputs":{"grammar":""}`, infer.CodeInvalid, "structured_outputs", "empty"},
	{`"structured_outputs":{"structural_tag":"x"}`, infer.CodeNotImplemented, "structured_outputs", "not supported"},
	{`"structured_outputs":{"json":{}},"response_format":{"type":"json_object"}`, infer.CodeInvalid, "structured_outputs", "response_format"},
	{`"response_format":{"type":"json_schema"}`, infer.CodeMalformed, "response_format", "required"},
	{`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`, infer.CodeMalformed, "response_format", "required"},
	{`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, infer.CodeMalformed, "response_format", "required"},
	{`"response_format":{"type":"structural_tag"}`, infer.CodeNotImplemented, "response_format", "structural_tag"},
	{`"response_format":{}`, infer.CodeMalformed, "response_format", "required"},
	{`"response_format":{"type":"xml"}`, infer.CodeMalformed, "response_format", "xml"},
	{`"priority":1`, infer.CodeInvalid, "priority", "--scheduling-policy priority"},
	{`"cache_salt":""`, infer.CodeInvalid, "cache_salt", "empty"},
	{`"cache_salt":"a/b"`, infer.CodeInvalid, "cache_salt", "/"},
	{`"request_id":"a b"`, infer.CodeInvalid, "request_id", "visible ASCII"},
	{`"request_id":"` + strings.Repeat("x", 129) + `"`, infer.CodeInvalid, "request_id", "129"},
	{`"max_tokens":5,"min_tokens":6`, infer.CodeInvalid, "min_tokens", "max_tokens=5, got 6"},
	{`"max_tokens":-1`, infer.CodeInvalid, "max_tokens", "at least 1, got -1"},
	{`"max_tokens":9223372036854775807`, infer.CodeContextLength, "max_tokens", "maximum context length of 2048"},
	{`"max_tokens":0`, infer.CodeInvalid, "max_tokens", "at least 1, got 0"},
	{`"stream_interval":0`, infer.CodeInvalid, "stream_interval", "at least 1, got 0"},
	{`"stream_interval":1.5`, infer.CodeMalformed, "stream_interval", "an integer"},
	{`"spaces_between_special_tokens":1`, infer.CodeMalformed, "spaces_between_special_tokens", "a boolean"},
	{`"vllm_xargs":{"a":[1]}`, infer.CodeMalformed, "vllm_xargs", `"a"`},
}

var chatRefusals = []refusal{
	{`"messages":null`, infer.CodeMalformed, "messages", "required"},
	{`"messages":[]`, infer.CodeInvalid, "messages", "empty"},
	{`"messages":"Hi"`, infer.CodeMalformed, "messages", "an array, got a string"},
	{`"messages":["Hi"]`, infer.CodeMalformed, "messages[0]", "an object"},
	{`"messages":[{"content":"Hi"}]`, infer.CodeMalformed, "messages[0].role", "required"},
	{`"messages":[{"role":"wizard","content":"Hi"}]`, infer.CodeInvalid, "messages[0].role", "wizard"},
	{`"messages":[{"role":"user","content":null}]`, infer.CodeMalformed, "messages[0].content", "required"},
	{`"messages":[{"role":"user","content":1}]`, infer.CodeMalformed, "messages[0].content", "a string or a list"},
	{`"messages":[{"role":"user","content":[{"type":"hologram"}]}]`, infer.CodeInvalid, "messages[0].content[0].type", "hologram"},
	{`"messages":[{"role":"user","content":[{"type":"text"}]}]`, infer.CodeMalformed, "messages[0].content[0].text", "required"},
	{`"top_logprobs":2`, infer.CodeMalformed, "top_logprobs", "logprobs: true"},
	{`"logprobs":true,"top_logprobs":21`, infer.CodeInvalid, "top_logprobs", "greater than max allowed: 20"},
	{`"logprobs":true,"top_logprobs":-1`, infer.CodeInvalid, "top_logprobs", "Requested sample logprobs of 512, which is greater than max allowed: 20"},
	{`"logprobs":3`, infer.CodeMalformed, "logprobs", "a boolean"},
	{`"max_completion_tokens":0,"max_tokens":4`, infer.CodeInvalid, "max_completion_tokens", "at least 1"},
	{`"continue_final_message":true`, infer.CodeMalformed, "continue_final_message", "add_generation_prompt"},
	{`"tools":[]`, infer.CodeMalformed, "tools", "empty"},
	{`"tools":[{"type":"function"}]`, infer.CodeMalformed, "tools[0].function", "required"},
	{`"tool_choice":"auto"`, infer.CodeMalformed, "tool_choice", "only allowed with tools"},
	{`"functions":[{}]`, infer.CodeNotImplemented, "functions", "not supported"},
	{`"chat_template_kwargs":[]`, infer.CodeMalformed, "chat_template_kwargs", "an object"},
}

var completionRefusals = []refusal{
	{`"prompt":null`, infer.CodeMalformed, "prompt", "required"},
	{`"prompt":""`, infer.CodeMalformed, "prompt", "empty"},
	{`"prompt":[]`, infer.CodeMalformed, "prompt", "empty"},
	{`"prompt":[[]]`, infer.CodeMalformed, "prompt", "empty"},
	{`"prompt":["a",""]`, infer.CodeMalformed, "prompt", "empty"},
	{`"prompt":{}`, infer.CodeMalformed, "prompt", "a string, a list of strings"},
	{`"prompt":["a",1]`, infer.CodeMalformed, "prompt[1]", "a string"},
	{`"prompt":[null]`, infer.CodeMalformed, "prompt[0]", "null"},
	{`"prompt":[1,2,99999999]`, infer.CodeInvalid, "prompt", "token id 99999999 is outside the vocabulary: ids are 0 to 511"},
	{`"prompt":[-1]`, infer.CodeInvalid, "prompt", "-1"},
	{`"prompt":[[1,2],[4294967297]]`, infer.CodeInvalid, "prompt[1]", "4294967297"},
	{`"prompt":[1.5,2]`, infer.CodeMalformed, "prompt[0]", "1.5"},
	{`"prompt":["a","b"],"n":8193`, infer.CodeInvalid, "prompt", "more than 16384"},
	{`"min_tokens":17`, infer.CodeInvalid, "min_tokens", "max_tokens=16, got 17"},
	{`"logprobs":21`, infer.CodeInvalid, "logprobs", "greater than max allowed: 20"},
	{`"logprobs":true`, infer.CodeMalformed, "logprobs", "an integer"},
	{`"n":2,"best_of":3`, infer.CodeInvalid, "best_of", "more than n = 2"},
	{`"suffix":"tail"`, infer.CodeInvalid, "suffix", "not supported"},
	{`"prompt_embeds":"x"`, infer.CodeNotImplemented, "prompt_embeds", "not supported"},
}

func TestRefusals(t *testing.T) {
	check := func(kind string, list []refusal, parse func(fields string) error) {
		for _, r := range list {
			t.Run(kind+"/"+r.param+"/"+r.fields[:min(len(r.fields), 60)], func(t *testing.T) {
				var err *infer.Error
				require.ErrorAs(t, parse(r.fields), &err)
				require.Equal(t, r.code, err.Code, err.Message)
				require.Equal(t, r.param, err.Param, err.Message)
				require.Contains(t, err.Message, r.text)
				require.Less(t, len(err.Message), 400, "what a client sent is cut")
			})
		}
	}
	// The last of equal fields counts, so a case may replace messages and prompt.
	asChat := func(fields string) error {
		_, err := openai.ParseChat([]byte(chat(fields)), profile(), envelope())
		return err
	}
	asCompletion := func(fields string) error {
		_, err := openai.ParseCompletion([]byte(completion(fields)), profile(), envelope())
		return err
	}
	check("chat", refusals, asChat)
	check("chat", chatRefusals, asChat)
	check("completion", refusals, asCompletion)
	check("completion", completionRefusals, asCompletion)
}

func TestBrokenBodies(t *testing.T) {
	deep := strings.Repeat("[", 200*1000)
	for name, body := range map[string]string{
		"empty": "", "blank": " \n", "array": "[]", "string": `"x"`, "null": "null", "half": `{"messages":[{"role"`,
		"not JSON": "messages=Hi", "NaN": `{"temperature":NaN}`, "trailing": `{} {}`, "deep": deep,
		"deep but valid": `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"GBK":            "{\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\xba\xc3\"}]}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, parse := range parsers {
				var err *infer.Error
				require.ErrorAs(t, parse([]byte(body)), &err)
				require.Equal(t, infer.CodeMalformed, err.Code)
				require.NotEmpty(t, err.Message)
				require.Less(t, len(err.Message), 300)
			}
		})
	}
}

// parsers are the entry points that take a client's bytes.
var parsers = []func([]byte) error{
	func(b []byte) error { _, err := openai.ParseChat(b, profile(), envelope()); return err },
	func(b []byte) error { _, err := openai.ParseCompletion(b, profile(), envelope()); return err },
	func(b []byte) error { _, err := openai.ParseTokenize(b, profile()); return err },
	func(b []byte) error { _, err := openai.ParseDetokenize(b, profile()); return err },
}

func TestTooManyFields(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `"f%d":0,`, i)
	}
	_, err := openai.ParseChat([]byte(`{`+b.String()+`"x":1}`), profile(), envelope())
	require.ErrorContains(t, err, "more than 4096 fields")
}

func TestIgnoredFields(t *testing.T) {
	call := parseChat(t, chat(`"include_metrics":false,"best_of":5,"guided_json":{},"user":"u","metadata":{"a":[{}]},`+
		`"logits_processors":[],"service_tier":"auto","parallel_tool_calls":false,"tools":null,"tool_choice":"none","response_format":{"type":"text"},`+
		`"stream_options":{},"use_beam_search":false,"stop":null,"n":null,"temperature":null`))
	require.Equal(t, 1, call.Request.N)
	require.InDelta(t, 1.0, call.Request.Sampling.Temperature, 0)
	require.Empty(t, call.Request.Sampling.Stop)
	require.Nil(t, call.Ignored, "nobody asked")
}

func TestIgnoredFieldsAreListed(t *testing.T) {
	p := profile()
	p.ListIgnored = true
	var many strings.Builder
	for i := range 50 {
		fmt.Fprintf(&many, `,"%s%d":"text"`, strings.Repeat("x", 200), i)
	}
	call, err := openai.ParseCompletion([]byte(completion(`"best_of":1,"include_metrics":true,"user":"u","max_tokens":3,"stop":null,"stream_options":{}`)), p, envelope())
	require.NoError(t, err)
	require.Equal(t, []string{"include_metrics", "user"}, call.Ignored)
	call, err = openai.ParseChat([]byte(chat(`"a":1`+many.String())), p, envelope())
	require.NoError(t, err)
	require.Len(t, call.Ignored, 16)
	for _, name := range call.Ignored {
		require.Less(t, len(name), 70)
		require.NotContains(t, name, "text")
	}
}

func TestErrorsAreNotTypedNil(t *testing.T) {
	_, err := openai.ParseTokenize([]byte(`{"prompt":"x"}`), profile())
	require.NoError(t, err)
	var inferErr *infer.Error
	require.False(t, errors.As(err, &inferErr))
}

// What is asked for reaches the engine as it was sent.
func TestStructuredOutput(t *testing.T) {
	schema := `{"type":"object", "properties":{"b":{},"a":{}}}`
	for fields, want := range map[string]*infer.StructuredOutput{
		`"response_format":{"type":"text"}`:                nil,
		`"response_format":null,"structured_outputs":null`: nil,
		`"response_format":{"type":"json_object"}`:         {Param: "response_format", Path: "response_format", JSONObject: true},
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`: {Param: "response_format", Path: "response_format.json_schema.schema", JSONSchema: []byte(schema)},
		`"structured_outputs":{"json":` + schema + `}`:                                                              {Param: "structured_outputs", Path: "structured_outputs.json", JSONSchema: []byte(schema)},
		`"structured_outputs":{"json":"{\"type\":\"null\"}"}`:                                                       {Param: "structured_outputs", Path: "structured_outputs.json", JSONSchema: []byte(`{"type":"null"}`)},
		`"structured_outputs":{"json_object":true,"regex":null}`:                                                    {Param: "structured_outputs", Path: "structured_outputs.json_object", JSONObject: true},
		`"structured_outputs":{"json_object":false,"regex":"a+"}`:                                                   {Param: "structured_outputs", Path: "structured_outputs.regex", Regex: "a+"},
		`"structured_outputs":{"choice":["a","b"]}`:                                                                 {Param: "structured_outputs", Path: "structured_outputs.choice", Choice: []string{"a", "b"}},
		`"structured_outputs":{"grammar":"root ::= \"a\""}`:                                                         {Param: "structured_outputs", Path: "structured_outputs.grammar", EBNF: `root ::= "a"`},
	} {
		call, err := openai.ParseChat([]byte(chat(fields)), profile(), envelope())
		require.NoError(t, err, fields)
		require.Equal(t, want, call.Request.Structured, fields)
		call, err = openai.ParseCompletion([]byte(completion(fields)), profile(), envelope())
		require.NoError(t, err, fields)
		require.Equal(t, want, call.Request.Structured, fields)
	}
}
