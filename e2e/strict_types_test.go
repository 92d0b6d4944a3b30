//go:build e2e

package e2e

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
)

// leftOut is required, but vLLM has none, and its bytes are followed on chats.
const leftOut = ".logprobs.refusal"

// requireStrict walks a value that the Go client has read. Every member that OpenAI's
// types require is there, and nothing was of another type than they say.
func requireStrict(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Interface:
		requireStrict(t, path, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			requireStrict(t, path, v.Index(i))
		}
	case reflect.Struct:
		if as := v.MethodByName("AsAny"); as.IsValid() {
			variant := as.Call(nil)[0]
			require.False(t, variant.IsNil(), "%s is of no known type", path)
			requireStrict(t, path, variant)
			return
		}
		requireStrictMembers(t, path, v)
	}
}

func requireStrictMembers(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	read := v.FieldByName("JSON")
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !read.IsValid() {
			continue
		}
		state, ok := read.FieldByName(f.Name).Interface().(respjson.Field)
		require.True(t, ok, path)
		at := path + "." + name
		if (f.Tag.Get("api") == "required" || f.Tag.Get("default") != "") && !strings.HasSuffix(at, leftOut) {
			require.NotEmpty(t, state.Raw(), "%s is missing", at)
		}
		if raw := state.Raw(); raw == "" || raw == "null" {
			continue
		}
		require.True(t, state.Valid(), "%s is of another type: %s", at, state.Raw())
		requireStrict(t, at, v.Field(i))
	}
}

// TestO46EventsAreStrict: every event of a text, of calls, of thoughts, of a tool server
// and of a cut answer has its type on the event line and all that OpenAI's types require;
// an item keeps its id, and what its pieces join to is what is done and what is there at
// the end.
func TestO46EventsAreStrict(t *testing.T) {
	s := withServerTools(t, serveTools(t, nil), "--reasoning-parser", "glm45")
	function := []obj{{"type": "function", "name": "get_weather", "parameters": weatherSchema}}
	for name, request := range map[string]obj{
		"text":        {"input": "Say hello.", "max_output_tokens": 24},
		"cut":         {"input": "Write a long story.", "max_output_tokens": 16},
		"call":        {"input": "What is the weather in Oslo?", "tools": function, "tool_choice": "required", "max_output_tokens": 100},
		"thoughts":    {"input": "What is 58 + 67?", "temperature": 0, "chat_template_kwargs": obj{"enable_thinking": true}},
		"tool server": weatherIn("Lisbon", nil),
	} {
		t.Run(name, func(t *testing.T) {
			raw := string(s.do("POST", "/v1/responses", body(with(request, obj{"stream": true}))).Body)
			ids, joined, done := map[int64]string{}, map[string]string{}, map[string]string{}
			var last responses.ResponseStreamEventUnion
			for i, event := range strings.Split(strings.TrimSpace(raw), "\n\n") {
				line, data, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
				require.True(t, ok, event)
				last = responses.ResponseStreamEventUnion{}
				require.NoError(t, json.Unmarshal([]byte(data), &last), data)
				require.Equal(t, line, last.Type)
				require.EqualValues(t, i, last.SequenceNumber)
				requireStrict(t, last.Type, reflect.ValueOf(last))
				id := last.ItemID
				if last.Item.ID != "" {
					id = last.Item.ID
				}
				if id != "" {
					if known, ok := ids[last.OutputIndex]; ok {
						require.Equal(t, known, id, event)
					}
					ids[last.OutputIndex] = id
				}
				joined[id] += last.Delta
				done[id] += last.Text + last.Arguments
			}
			require.Equal(t, joined, done)
			require.Len(t, ids, len(last.Response.Output))
			for i, item := range last.Response.Output {
				require.Equal(t, ids[int64(i)], item.ID)
			}
			require.True(t, last.Response.JSON.Usage.Valid())
			require.True(t, last.Response.JSON.Status.Valid())

			var whole responses.Response
			require.NoError(t, json.Unmarshal(s.do("POST", "/v1/responses", body(request)).Body, &whole))
			requireStrict(t, "response", reflect.ValueOf(whole))
		})
	}
}

// TestChatsAreStrict: bodies and chunks of chats and completions, of calls, thoughts,
// log-probabilities and usage among them, have what OpenAI's types require.
func TestChatsAreStrict(t *testing.T) {
	s := serve(t, "--reasoning-parser", "glm45", "--enable-per-request-metrics", "--enable-prompt-tokens-details")
	usage := obj{"stream_options": obj{"include_usage": true}}
	for name, request := range map[string]obj{
		"text":     {"messages": user("Say hello."), "max_tokens": 8, "logprobs": true, "top_logprobs": 2},
		"choices":  {"messages": user("Say hello."), "max_tokens": 8, "n": 2, "temperature": 1},
		"call":     withTools("What is the weather in Oslo?", obj{"tool_choice": "required"}),
		"thoughts": {"messages": user("What is 58 + 67?"), "temperature": 0, "chat_template_kwargs": obj{"enable_thinking": true}},
	} {
		var whole openai.ChatCompletion
		require.NoError(t, json.Unmarshal(s.do("POST", "/v1/chat/completions", body(request)).Body, &whole), name)
		requireStrict(t, name, reflect.ValueOf(whole))
		chunks := eachData(t, s, "/v1/chat/completions", with(request, usage), func(data string) {
			var chunk openai.ChatCompletionChunk
			require.NoError(t, json.Unmarshal([]byte(data), &chunk), data)
			requireStrict(t, name+" streamed", reflect.ValueOf(chunk))
		})
		require.Greater(t, chunks, 3, name)
	}
	request := obj{"prompt": "The capital of France is", "max_tokens": 4, "logprobs": 2}
	var whole openai.Completion
	require.NoError(t, json.Unmarshal(s.do("POST", "/v1/completions", body(request)).Body, &whole))
	requireStrict(t, "completion", reflect.ValueOf(whole))
	eachData(t, s, "/v1/completions", with(request, usage), func(data string) {
		var chunk openai.Completion
		require.NoError(t, json.Unmarshal([]byte(data), &chunk), data)
		requireStrict(t, "completion streamed", reflect.ValueOf(chunk))
	})
}

// eachData calls f with every event of a stream but the last one, and counts them.
func eachData(t *testing.T, s *server, path string, request obj, f func(data string)) (n int) {
	t.Helper()
	r := s.do("POST", path, body(with(request, obj{"stream": true})))
	events := strings.Split(strings.TrimSpace(string(r.Body)), "\n\n")
	require.Equal(t, "data: [DONE]", events[len(events)-1])
	for _, event := range events[:len(events)-1] {
		f(strings.TrimPrefix(event, "data: "))
	}
	return len(events) - 1
}
