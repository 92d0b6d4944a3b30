package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"pgregory.net/rapid"
)

func final(f infer.FinishReason) *infer.Final {
	return &infer.Final{FinishReason: f, Usage: infer.Usage{NumPromptTokens: 20, NumCompletionTokens: 5, NumCachedTokens: 16, NumReasoningTokens: 2}}
}

func bodyOf(c *openai.Call, f *infer.Final, deltas ...infer.Delta) string {
	w := c.NewBody()
	for i := range deltas {
		w.Add(&deltas[i])
	}
	return string(w.AppendBody(nil, f))
}

// streamOf returns the events, each as its name and its data.
func streamOf(t require.TestingT, c *openai.Call, f *infer.Final, deltas ...infer.Delta) (events [][2]string) {
	w := c.NewStream()
	dst := w.AppendStart(nil)
	for i := range deltas {
		dst = w.AppendDelta(dst, &deltas[i])
	}
	for _, event := range strings.Split(strings.TrimSuffix(string(w.AppendFinal(dst, f)), "\n\n"), "\n\n") {
		name, data, found := strings.Cut(event, "\ndata: ")
		require.True(t, found, event)
		name = strings.TrimPrefix(name, "event: ")
		var typed struct{ Type string }
		require.NoError(t, json.Unmarshal([]byte(data), &typed), data)
		require.Equal(t, name, typed.Type)
		events = append(events, [2]string{name, data})
	}
	return events
}

func parsed(d infer.Delta, pieces ...infer.Piece) infer.Delta {
	d.Parsed = &infer.Parsed{Pieces: pieces}
	return d
}

// thinkAndCall is an answer of all kinds of blocks.
func thinkAndCall() []infer.Delta {
	return []infer.Delta{
		parsed(infer.Delta{Prompt: &infer.PromptInfo{TokenIDs: make([]int32, 20)}}),
		parsed(infer.Delta{}, infer.Piece{Kind: infer.PieceReasoning, Text: "Hm"}),
		parsed(infer.Delta{}, infer.Piece{Kind: infer.PieceReasoning, Text: "m."}, infer.Piece{Text: "I"}),
		parsed(infer.Delta{}, infer.Piece{Text: " \"look\""}, infer.Piece{Kind: infer.PieceCall, ID: "chatcmpl-tool-7", Name: "get"}),
		parsed(infer.Delta{}, infer.Piece{Kind: infer.PieceArguments, Text: `{"city"`}),
		parsed(infer.Delta{FinishReason: infer.FinishStop}, infer.Piece{Kind: infer.PieceArguments, Text: `:"Oslo"}`}, infer.Piece{Kind: infer.PieceCallEnd},
			infer.Piece{Kind: infer.PieceCall, Index: 1, ID: "abcdefghi", Name: "now"}, infer.Piece{Kind: infer.PieceCallEnd, Index: 1}),
	}
}

const thoughtsOn = `"thinking":{"type":"adaptive"}`

func TestBody(t *testing.T) {
	p := profile()
	p.ReasoningTokens = true
	call := parse(t, p, thoughtsOn)
	require.Equal(t, `{"id":"msg_0123","type":"message","role":"assistant","model":"understudy","content":[`+
		`{"type":"thinking","thinking":"Hmm.","signature":"0123"},{"type":"text","text":"I \"look\"","citations":null},`+
		`{"type":"tool_use","id":"toolu_7","name":"get","input":{"city":"Oslo"},"caller":{"type":"direct"}},`+
		`{"type":"tool_use","id":"abcdefghi","name":"now","input":{},"caller":{"type":"direct"}}],`+
		`"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null,`+
		`"usage":{"input_tokens":20,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}}`,
		bodyOf(call, final(infer.FinishStop), thinkAndCall()...))

	require.Contains(t, bodyOf(call, final(infer.FinishStop)), `"content":[],"stop_reason":"end_turn"`, "there may be nothing")
	p.PromptTokensDetails, p.PerRequestMetrics = true, true
	body := bodyOf(parse(t, p, ``), final(infer.FinishStop), thinkAndCall()...)
	require.Contains(t, body, `"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":16,"output_tokens":5,`)
	require.Contains(t, body, `,"metrics":null}`)
	require.NotContains(t, body, `"type":"thinking"`, "nobody asked for thoughts")
	body = bodyOf(parse(t, p, `"thinking":{"type":"adaptive","display":"omitted"}`), final(infer.FinishStop), thinkAndCall()...)
	require.Contains(t, body, `[{"type":"thinking","thinking":"","signature":"0123"},{"type":"text"`)
}

func TestStopReasons(t *testing.T) {
	callPiece := infer.Piece{Kind: infer.PieceCall, ID: "i", Name: "f"}
	half := infer.Piece{Kind: infer.PieceArguments, Text: `{"a":`}
	end, cut := infer.Piece{Kind: infer.PieceCallEnd}, infer.Piece{Kind: infer.PieceCallEnd, Incomplete: true}
	for want, d := range map[string]infer.Delta{
		`"stop_reason":"end_turn","stop_sequence":null`:         {FinishReason: infer.FinishStop},
		`"stop_reason":"end_turn","stop_sequence":null,`:        {FinishReason: infer.FinishStop, StopReason: infer.StopReason{ByToken: true, TokenID: 5}},
		`"stop_reason":"max_tokens","stop_sequence":null`:       {FinishReason: infer.FinishLength},
		`"stop_reason":"stop_sequence","stop_sequence":"\"x\""`: {FinishReason: infer.FinishStop, StopReason: infer.StopReason{Text: `"x"`}},
		`"stop_reason":"tool_use","stop_sequence":null`:         parsed(infer.Delta{FinishReason: infer.FinishStop}, callPiece, end),
		`"stop_reason":"max_tokens","stop_sequence":null,`:      parsed(infer.Delta{FinishReason: infer.FinishLength}, callPiece, half, cut),
		`"stop_reason":"end_turn","stop_sequence":null,"st`:     parsed(infer.Delta{FinishReason: infer.FinishStop}, callPiece, half, cut),
		`"stop_reason":"stop_sequence","stop_sequence":"y"`:     parsed(infer.Delta{FinishReason: infer.FinishStop, StopReason: infer.StopReason{Text: "y"}}, callPiece, half, cut),
	} {
		call := parse(t, profile(), tools)
		body := bodyOf(call, final(d.FinishReason), d)
		require.True(t, json.Valid([]byte(body)), body)
		require.Contains(t, body, want)
		events := streamOf(t, call, final(d.FinishReason), d)
		require.Contains(t, events[len(events)-2][1], want)
	}
}

func TestStream(t *testing.T) {
	p := profile()
	p.PromptTokensDetails, p.ReasoningTokens = true, true
	start := `{"type":"message_start","message":{"id":"msg_0123","type":"message","role":"assistant","model":"understudy","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,` +
		`"usage":{"input_tokens":20,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":0,"output_tokens_details":null}}}`
	want := [][2]string{
		{"message_start", start},
		{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m."}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"0123"}}`},
		{"content_block_stop", `{"type":"content_block_stop","index":0}`},
		{"content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":null}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I"}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" \"look\""}}`},
		{"content_block_stop", `{"type":"content_block_stop","index":1}`},
		{"content_block_start", `{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_7","name":"get","input":{},"caller":{"type":"direct"}}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\""}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\"Oslo\"}"}}`},
		{"content_block_stop", `{"type":"content_block_stop","index":2}`},
		{"content_block_start", `{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"abcdefghi","name":"now","input":{},"caller":{"type":"direct"}}}`},
		{"content_block_stop", `{"type":"content_block_stop","index":3}`},
		{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null},` +
			`"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":16,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}}`},
		{"message_stop", `{"type":"message_stop"}`},
	}
	require.Equal(t, want, streamOf(t, parse(t, p, thoughtsOn+`,"stream":true`), final(infer.FinishStop), thinkAndCall()...))

	events := streamOf(t, parse(t, p, `"stream":true`), final(infer.FinishStop))
	require.Equal(t, [2]string{"message_start", start}, events[0], "there may be no output")
	require.Len(t, events, 3)
}

func TestStreamErrors(t *testing.T) {
	failed := &infer.Final{FinishReason: infer.FinishError, Err: infer.Errorf(infer.CodeUnavailable, "", "gone")}
	events := streamOf(t, parse(t, profile(), `"stream":true`), failed, infer.Delta{Text: "a"})
	require.Len(t, events, 4)
	require.Equal(t, [2]string{"error", `{"type":"error","error":{"type":"overloaded_error","message":"gone"},"request_id":"msg_0123"}`}, events[3])
	w := parse(t, profile(), `"stream":true`).NewStream()
	require.Equal(t, "event: error\ndata: "+`{"type":"error","error":{"type":"api_error","message":"Internal server error"},"request_id":"msg_0123"}`+"\n\n",
		string(w.AppendBroken(nil, infer.Internal(nil))))
}

func TestErrorTypes(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error", 408: "timeout_error", 413: "request_too_large",
		415: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 501: "invalid_request_error", 503: "overloaded_error", 505: "api_error",
	} {
		require.Equal(t, `{"type":"error","error":{"type":"`+want+`","message":"a \"b\""},"request_id":"r"}`, string(anthropic.AppendError(nil, openai.Problem{Status: status, Message: `a "b"`}, "r")))
	}
}

func TestThreadsAreRefusedInTheWordsOfClients(t *testing.T) {
	_, err := anthropic.ParseMessage([]byte(request(`"thread":{"type":"create"}`)), profile(), envelope())
	require.Equal(t, `{"type":"error","error":{"type":"invalid_request_error","message":"thread: not supported: no conversations are kept, send all messages",`+
		`"details":{"error_code":"thread_unsupported_request"}},"request_id":"r"}`, string(anthropic.AppendError(nil, openai.FromError(infer.AsError(err)), "r")))
}

func TestToolServersAreRefused(t *testing.T) {
	_, err := anthropic.ParseMessage([]byte(request(`"mcp_servers":[{"type":"url","url":"http://a/","name":"a"}]`)), profile(), envelope())
	require.Equal(t, "mcp_servers", infer.AsError(err).Param)
	require.Equal(t, 400, openai.FromError(infer.AsError(err)).Status)
	parse(t, profile(), `"mcp_servers":[]`)
}

func TestDeltasAllocateNothing(t *testing.T) {
	s := parse(t, profile(), thoughtsOn+`,"stream":true`).NewStream()
	b := s.AppendDelta(make([]byte, 0, 4096), &infer.Delta{Text: "x"})
	for _, d := range []infer.Delta{{Text: " word"}, parsed(infer.Delta{}, infer.Piece{Kind: infer.PieceReasoning, Text: "hm"}), parsed(infer.Delta{}, infer.Piece{Kind: infer.PieceCall, ID: "i", Name: "f"})} {
		require.Zero(t, testing.AllocsPerRun(100, func() { b = s.AppendDelta(b[:0], &d) }))
	}
}

// TestTwins: what an SDK puts together of the events is the message that is not streamed.
func TestTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call, err := anthropic.ParseMessage([]byte(request(rapid.SampledFrom([]string{"", thoughtsOn, `"thinking":{"type":"adaptive","display":"omitted"}`}).Draw(t, "thinking"))), profile(), envelope())
		require.NoError(t, err)
		deltas := drawDeltas(t)
		events := streamOf(t, call, final(infer.FinishStop), deltas...)
		var whole struct{ Content []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(bodyOf(call, final(infer.FinishStop), deltas...)), &whole))
		require.Equal(t, whole.Content, accumulate(t, events))
	})
}

func drawDeltas(t *rapid.T) []infer.Delta {
	var pieces []infer.Piece
	text := rapid.StringN(0, 5, -1)
	for range rapid.IntRange(0, 6).Draw(t, "pieces") {
		switch kind := rapid.SampledFrom([]infer.PieceKind{infer.PieceContent, infer.PieceReasoning, infer.PieceCall}).Draw(t, "kind"); kind {
		case infer.PieceCall:
			pieces = append(pieces, infer.Piece{Kind: kind, ID: "i", Name: "f"})
			for _, part := range rapid.SampledFrom([][]string{nil, {`{"a"`, ``, `:1}`}, {`{}`}}).Draw(t, "arguments") {
				pieces = append(pieces, infer.Piece{Kind: infer.PieceArguments, Text: part})
			}
			pieces = append(pieces, infer.Piece{Kind: infer.PieceCallEnd})
		default:
			pieces = append(pieces, infer.Piece{Kind: kind, Text: text.Draw(t, "text")})
		}
	}
	var deltas []infer.Delta
	for len(pieces) > 0 {
		n := rapid.IntRange(0, len(pieces)).Draw(t, "n")
		deltas = append(deltas, parsed(infer.Delta{}, pieces[:n]...))
		pieces = pieces[n:]
	}
	return append(deltas, parsed(infer.Delta{FinishReason: infer.FinishStop}))
}

// accumulate does what the SDKs do.
func accumulate(t *rapid.T, events [][2]string) (content []map[string]any) {
	content = []map[string]any{}
	open, input := false, ""
	for _, e := range events {
		var event struct {
			Index        int
			ContentBlock map[string]any `json:"content_block"`
			Delta        map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(e[1]), &event))
		switch e[0] {
		case "content_block_start":
			require.False(t, open)
			require.Len(t, content, event.Index)
			content, open, input = append(content, event.ContentBlock), true, ""
		case "content_block_delta":
			require.True(t, open)
			require.Equal(t, len(content)-1, event.Index)
			block := content[event.Index]
			switch event.Delta["type"] {
			case "text_delta":
				block["text"] = block["text"].(string) + event.Delta["text"].(string)
			case "thinking_delta":
				block["thinking"] = block["thinking"].(string) + event.Delta["thinking"].(string)
			case "signature_delta":
				block["signature"] = event.Delta["signature"]
			default:
				input += event.Delta["partial_json"].(string)
			}
		case "content_block_stop":
			require.True(t, open)
			if open = false; input != "" {
				var value any
				require.NoError(t, json.Unmarshal([]byte(input), &value))
				content[event.Index]["input"] = value
			}
		}
	}
	require.False(t, open)
	return content
}
