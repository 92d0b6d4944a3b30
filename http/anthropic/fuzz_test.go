package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// FuzzMessage: whatever was sent, there is a request within its bounds whose parts are
// valid JSON, or an error of ours that is short; and what is counted is what is read.
func FuzzMessage(f *testing.F) {
	for _, fields := range []string{
		``, thoughtsOn + `,"stream":true`, tools + `,"tool_choice":{"type":"tool","name":"f"}`, said(`{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"\ud83d"}]}`),
		`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a\nb"},{"type":"tool_use","id":"i","name":"f","input":{"a":[1,{}]}}]},{"role":"user","content":"x"}]`,
	} {
		f.Add([]byte(request(fields)))
	}
	for _, r := range refusals {
		f.Add([]byte(request(r[0])))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := anthropic.ParseMessage(body, profile(), envelope())
		count, countErr := anthropic.ParseCount(body, profile())
		if err != nil {
			var refused *infer.Error
			require.ErrorAs(t, err, &refused)
			require.Less(t, len(refused.Message), 1024)
			require.Contains(t, []int{400, 404, 501}, openai.FromError(refused).Status)
			return
		}
		require.NoError(t, countErr)
		require.Equal(t, call.Request.Chat, count.Chat)
		chat := call.Request.Chat
		require.NotEmpty(t, chat.Messages)
		for _, raw := range append([]json.RawMessage{chat.TemplateKwargs}, chat.Messages...) {
			require.True(t, json.Valid(raw), "%s", raw)
		}
		require.True(t, chat.Tools == nil || json.Valid(chat.Tools))
		require.GreaterOrEqual(t, *call.Request.MaxTokens, 1)
		require.LessOrEqual(t, len(call.Request.Sampling.Stop), 4)
		require.True(t, json.Valid([]byte(bodyOf(call, final(infer.FinishStop), infer.Delta{Text: "x", FinishReason: infer.FinishStop}))))
	})
}
