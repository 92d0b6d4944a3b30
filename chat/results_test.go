package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
)

func TestResultsComeInTheOrderOfTheirCalls(t *testing.T) {
	template, err := chat.Parse("{% for m in messages %}{{ m.content }} {% endfor %}", chat.Options{})
	require.NoError(t, err)
	const (
		calls = `{"role":"assistant","content":"calls","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}},{"id":"c","function":{"name":"f"}}]}`
		one   = `{"role":"assistant","content":"call","tool_calls":[{"id":"z","function":{"name":"f"}}]}`
		user  = `{"role":"user","content":"user"}`
	)
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"` + id + `"}` }
	for _, tc := range []struct {
		messages []string
		want     string
	}{
		{[]string{user, calls, result("c"), result("a"), result("b"), user}, "user calls a b c user "},
		{[]string{calls, result("c"), result("b"), calls, result("b"), result("a")}, "calls b c calls a b "},
		{[]string{calls, result("b"), result("x"), result("a")}, "calls b x a "}, // a stranger: as they came
		{[]string{calls, result("b"), `{"role":"tool","content":"none"}`, result("a")}, "calls b none a "},
		{[]string{calls, result("b"), user, result("a")}, "calls b user a "},
		{[]string{calls, result("b"), result("a"), result("b")}, "calls a b b "},
		{[]string{one, result("z"), result("y")}, "call z y "},
		{[]string{user, result("a")}, "user a "},
	} {
		in := &infer.ChatInput{}
		for _, m := range tc.messages {
			in.Messages = append(in.Messages, json.RawMessage(m))
		}
		rendered, err := template.Render(chat.Input{Chat: in})
		require.NoError(t, err)
		require.Equal(t, tc.want, rendered.Text)
	}
}
