package anthropic_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func profile() *openai.Profile {
	return &openai.Profile{
		Model:          &infer.ModelInfo{ServedNames: []string{"understudy", "alias"}, MaxModelLen: 2048, VocabSize: 512},
		MaxStopStrings: 4, AutoToolChoice: true,
	}
}

func envelope() openai.Envelope {
	return openai.Envelope{NewID: "0123", Created: 1700000000, Arrival: 7, Receive: 5}
}

// request is a body with these fields beside what every one needs.
func request(fields string) string {
	body := `{"model":"understudy"`
	for _, f := range []string{`"max_tokens":99`, `"messages":[{"role":"user","content":"Hi"}]`} {
		if name, _, _ := strings.Cut(f, ":"); !strings.Contains(fields, name+":") {
			body += "," + f
		}
	}
	if fields != "" {
		fields = "," + fields
	}
	return body + fields + "}"
}

func parse(t *testing.T, p *openai.Profile, fields string) *openai.Call {
	t.Helper()
	call, err := anthropic.ParseMessage([]byte(request(fields)), p, envelope())
	require.NoError(t, err, fields)
	return call
}

func TestMessagesHaveTheTimesOfTheirArrival(t *testing.T) {
	r := parse(t, profile(), "").Request
	require.Equal(t, []int64{7, 5}, []int64{r.Arrival, r.Receive})
}

func TestMessagesBecomeAChat(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   []string
	}{
		"plain":         {``, []string{`{"role":"user","content":"Hi"}`}},
		"system text":   {`"system":"Be \"brief\"."`, []string{`{"role":"system","content":"Be \"brief\"."}`, `{"role":"user","content":"Hi"}`}},
		"system blocks": {`"system":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}},{"type":"text","text":"B"}]`, []string{`{"role":"system","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}`, `{"role":"user","content":"Hi"}`}},
		"no system":     {`"system":""`, []string{`{"role":"user","content":"Hi"}`}},
		"system turn":   {`"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}]`, []string{`{"role":"user","content":"a"}`, `{"role":"system","content":"b"}`, `{"role":"user","content":"c"}`}},
		"turns of one role are one": {
			`"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`,
			[]string{`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"role":"assistant","content":"c"}`, `{"role":"user","content":"d"}`},
		},
		"a loop of tools": {
			`"messages":[{"role":"user","content":"w?"},
				{"role":"assistant","content":[{"type":"thinking","thinking":"let \"me\"","signature":"x"},{"type":"redacted_thinking","data":"zzz"},{"type":"thinking","thinking":"see","signature":""},{"type":"text","text":"I look."},
					{"type":"tool_use","id":"toolu_1","name":"get","input":{"city": "Oslo","n":[1]}},{"type":"tool_use","id":"toolu_2","name":"now"}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"21"},{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"12"},{"type":"text","text":"h"}],"is_error":true},
					{"type":"tool_result","tool_use_id":"toolu_3"},{"type":"text","text":"So?"}]}]`,
			[]string{
				`{"role":"user","content":"w?"}`,
				`{"role":"assistant","reasoning":"let \"me\"\nsee","content":"I look.","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"get","arguments":"{\"city\": \"Oslo\",\"n\":[1]}"}},{"id":"toolu_2","type":"function","function":{"name":"now","arguments":"{}"}}]}`,
				`{"role":"tool","tool_call_id":"toolu_1","content":"21"}`,
				`{"role":"tool","tool_call_id":"toolu_2","content":[{"type":"text","text":"12"},{"type":"text","text":"h"}]}`,
				`{"role":"tool","tool_call_id":"toolu_3","content":""}`,
				`{"role":"user","content":"So?"}`,
			},
		},
		"calls without words": {
			`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}]`,
			[]string{`{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"t","content":"1"}`},
		},
	} {
		call := parse(t, profile(), c.fields)
		var got []string
		for _, m := range call.Request.Chat.Messages {
			got = append(got, string(m))
		}
		require.Equal(t, c.want, got, name)
		require.True(t, call.Request.Chat.AddGenerationPrompt, name)
		require.False(t, call.Request.Chat.ContinueFinalMessage, name)

		count, err := anthropic.ParseCount([]byte(request(c.fields)), profile())
		require.NoError(t, err, name)
		require.Equal(t, call.Request.Chat, count.Chat, "%s: what is counted is what is read", name)
	}
}

func TestAnAnswerThatHasBegunIsContinued(t *testing.T) {
	begun := `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"So it"}]`
	chat := parse(t, profile(), begun).Request.Chat
	require.True(t, chat.ContinueFinalMessage)
	require.False(t, chat.AddGenerationPrompt)
	chat = parse(t, profile(), `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[]}]`).Request.Chat
	require.True(t, chat.AddGenerationPrompt, "nothing has been said")
	require.Len(t, chat.Messages, 1)
}

func TestSettings(t *testing.T) {
	temperature, own := 0.25, 60
	p := profile()
	p.Model.Defaults = infer.SamplingDefaults{Temperature: &temperature, MaxNewTokens: &own}
	call := parse(t, p, `"stop_sequences":["a","b"],"top_k":5,"top_p":0.5,"seed":3,"stream":true,"metadata":{"user_id":"u"},"surprise":{},"service_tier":"auto"`)
	r := call.Request
	require.Equal(t, "msg_0123", r.ID)
	require.Equal(t, 60, *r.MaxTokens, "the model's own limit")
	require.Equal(t, []string{"a", "b"}, r.Sampling.Stop)
	require.Equal(t, []any{0.25, 0.5, 5, uint64(3), true}, []any{r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.TopK, r.Sampling.Seed, r.SeedGiven})
	require.True(t, r.Stream && r.ReturnTokenIDs && call.Reply.Stream)
	require.Equal(t, 1, r.N)
	require.JSONEq(t, `{"enable_thinking":false,"thinking":false}`, string(r.Chat.TemplateKwargs))
	require.Nil(t, r.Tools)
	require.Nil(t, r.Chat.Tools)
	require.False(t, parse(t, p, ``).Request.ReturnTokenIDs)
	parse(t, p, `"thinking":{"type":"enabled","budget_tokens":80}`) // below the client's limit, if not the model's
}

func TestThinkingAndOutputConfig(t *testing.T) {
	for fields, want := range map[string]string{
		`"thinking":null`:                                    `{"enable_thinking":false,"thinking":false}`,
		`"thinking":{"type":"disabled"}`:                     `{"enable_thinking":false,"thinking":false}`,
		`"thinking":{"type":"adaptive"}`:                     `{"enable_thinking":true,"thinking":true}`,
		`"thinking":{"type":"enabled","budget_tokens":50}`:   `{"enable_thinking":true,"thinking":true,"thinking_budget":50}`,
		`"output_config":{"effort":"low"}`:                   `{"enable_thinking":false,"thinking":false,"reasoning_effort":"low"}`,
		`"output_config":{"effort":null,"format":null}`:      `{"enable_thinking":false,"thinking":false}`,
		`"thinking":{"type":"adaptive","display":"omitted"}`: `{"enable_thinking":true,"thinking":true}`,
	} {
		call := parse(t, profile(), fields)
		require.JSONEq(t, want, string(call.Request.Chat.TemplateKwargs), fields)
		require.Nil(t, call.Request.Structured)
	}
	format := `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`
	require.Equal(t, &infer.StructuredOutput{Param: "output_config.format", Path: "output_config.format.schema", JSONSchema: []byte(`{"type":"object"}`)}, parse(t, profile(), format).Request.Structured)
	older := `"output_format":{"type":"json_schema","schema":{"type":"array"}}`
	require.Equal(t, &infer.StructuredOutput{Param: "output_format", Path: "output_format.schema", JSONSchema: []byte(`{"type":"array"}`)}, parse(t, profile(), older).Request.Structured)
	require.Equal(t, "output_config.format", parse(t, profile(), older+","+format).Request.Structured.Param)
	require.Nil(t, parse(t, profile(), format+`,`+tools+`,"tool_choice":{"type":"any"}`).Request.Structured, "no answer comes")
}

const tools = `"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":null},{"type":"custom","name":"g-1","input_schema":{}}]`

func TestTools(t *testing.T) {
	shown := `[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g-1","parameters":{}}}]`
	list := []infer.Tool{{Name: "f", Parameters: []byte(`{"type":"object"}`), Param: "tools[0].input_schema"}, {Name: "g-1", Parameters: []byte(`{}`), Param: "tools[1].input_schema"}}
	for choice, want := range map[string]*infer.ToolUse{
		``: {Tools: list},
		`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`: {Tools: list, Single: true},
		`,"tool_choice":{"type":"any"}`:                                   {Tools: list, Forced: true},
		`,"tool_choice":{"type":"tool","name":"g-1"}`:                     {Tools: list, Forced: true, Name: "g-1"},
		`,"tool_choice":{"type":"none"}`:                                  nil,
	} {
		call := parse(t, profile(), tools+choice)
		require.Equal(t, want, call.Request.Tools, choice)
		require.Equal(t, shown, string(call.Request.Chat.Tools), choice)
	}
	p := profile()
	p.ExcludeToolsWhenNone = true
	require.Nil(t, parse(t, p, tools+`,"tool_choice":{"type":"none"}`).Request.Chat.Tools)
	require.Nil(t, parse(t, p, `"tools":[],"tool_choice":{"type":"auto"}`).Request.Tools)
	p.AutoToolChoice = false
	require.NotNil(t, parse(t, p, tools+`,"tool_choice":{"type":"any"}`).Request.Tools)
	_, err := anthropic.ParseMessage([]byte(request(tools)), p, envelope())
	require.ErrorContains(t, err, `tool_choice: "auto" tool choice requires --enable-auto-tool-choice`)
}

// said is messages with one more block by the user.
func said(block string) string {
	return `"messages":[{"role":"user","content":[{"type":"text","text":"a"},` + block + `]}]`
}

// refusals are fields and the beginnings of the messages that refuse them.
var refusals = [][2]string{
	{`"max_tokens":null`, `max_tokens: is required`},
	{`"max_tokens":0`, `max_tokens: must be at least 1, got 0`},
	{`"max_tokens":"9"`, `max_tokens: must be an integer, got a string`},
	{`"model":"nope"`, "The model `nope` does not exist."},
	{`"messages":null`, `messages: is required: a list of messages`},
	{`"messages":[]`, `messages: must not be empty`},
	{`"messages":["a"]`, `messages[0]: must be an object, got a string: "a"`},
	{`"messages":[{"content":"a"}]`, `messages[0].role: is required`},
	{`"messages":[{"role":"tool","content":"a"}]`, `messages[0].role: unknown: "tool"; use one of user, assistant, system`},
	{`"messages":[{"role":"user"}]`, `messages[0].content: is required in a message of role "user"`},
	{`"messages":[{"role":"user","content":5}]`, `messages[0].content: must be a string or a list of blocks, got a number: 5`},
	{`"messages":[{"role":"user","content":[]}]`, `messages[0].content: must not be empty`},
	{`"messages":[{"role":"assistant","content":[]}]`, `messages: holds nothing that can be read`},
	{`"messages":[{"role":"assistant","content":" "}]`, `messages: the last message is the assistant's and has no text to continue`},
	{`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}]`, `messages: the last message is the assistant's and has no text`},
	{`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{}}]}]`, `messages: the last message calls tools`},
	{`"messages":[{"role":"assistant","content":"So"}],"thinking":{"type":"adaptive"}`, `messages: the last message is the assistant's, which cannot be continued with thinking on`},
	{`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":"{}"}]}]`, `messages[0].content[0].input: must be an object`},
	{`"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]}]`, `messages[0].content[0].id: is required`},
	{`"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"i","name":"f","input":{}}]}]`, `messages[0].content[0].type: a block of type "server_tool_use" is not supported here: the model reads text; use text, thinking, redacted_thinking, tool_use`},
	{said(`{"type":"image","source":{"type":"base64","data":"AA"}}`), `messages[0].content[1].type: a block of type "image" is not supported here: the model reads text; use text, tool_result`},
	{said(`{"type":"document","source":{"type":"text","data":"AA"}}`), `messages[0].content[1].type: a block of type "document" is not supported here`},
	{said(`{"type":"text"}`), `messages[0].content[1].text: is required`},
	{said(`{"text":"b"}`), `messages[0].content[1].type: is required`},
	{said(`"b"`), `messages[0].content[1]: must be an object`},
	{said(`{"type":"tool_result","content":"b"}`), `messages[0].content[1].tool_use_id: is required`},
	{said(`{"type":"tool_result","tool_use_id":"i","content":[{"type":"image"}]}`), `messages[0].content[1].content[0].type: a block of type "image" is not supported here: the model reads text; use text`},
	{`"system":5`, `system: must be a string or a list of text blocks, got a number`},
	{`"system":[{"type":"image"}]`, `system[0].type: a block of type "image"`},
	{`"stop_sequences":["a","b","c","d","e"]`, `stop_sequences: has more than 4 entries`},
	{`"stop_sequences":[""]`, `stop_sequences: must not contain an empty string`},
	{`"temperature":3`, `temperature: must be in [0, 2], got 3`},
	{`"top_p":0`, `top_p: must be greater than 0`},
	{`"top_k":-5`, `top_k: must be -1 or 0 (off) or at least 1, got -5`},
	{`"stream":"yes"`, `stream: must be a boolean`},
	{`"metadata":{"user_id":5}`, `metadata.user_id: must be a string`},
	{`"metadata":{"user_id":"` + strings.Repeat("x", 513) + `"}`, `metadata.user_id: has 513 bytes, the limit is 512`},
	{`"thinking":{}`, `thinking.type: is required`},
	{`"thinking":{"type":"maybe"}`, `thinking.type: unknown: "maybe"; use one of enabled, disabled, adaptive`},
	{`"thinking":{"type":"enabled"}`, `thinking.budget_tokens: is required with type enabled`},
	{`"thinking":{"type":"enabled","budget_tokens":0}`, `thinking.budget_tokens: must be between 1 and`},
	{`"thinking":{"type":"enabled","budget_tokens":99}`, `thinking.budget_tokens: must be less than max_tokens=99, got 99`},
	{`"thinking":{"type":"adaptive","display":"loud"}`, `thinking.display: unknown: "loud"`},
	{`"output_config":{"effort":"huge"}`, `output_config.effort: unknown: "huge"`},
	{`"output_config":{"format":{"type":"xml"}}`, `output_config.format.type: unknown: "xml"; use one of json_schema`},
	{`"output_config":{"format":{"type":"json_schema"}}`, `output_config.format.schema: is required`},
	{`"output_format":{"type":"json_schema"}`, `output_format.schema: is required`},
	{`"output_format":7`, `output_format: must be an object, got a number`},
	{`"tools":[{"input_schema":{}}]`, `tools[0].name: is required`},
	{`"tools":[{"name":"f"}]`, `tools[0].input_schema: is required`},
	{`"tools":[{"name":"f g","input_schema":{}}]`, `tools[0].name: may have letters, digits, _ and - only, got "f g"`},
	{`"tools":[{"name":"` + strings.Repeat("f", 129) + `","input_schema":{}}]`, `tools[0].name: has 129 bytes, the limit is 128`},
	{`"tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}]`, `tools: two tools have the name "f"`},
	{`"tools":[{"type":"bash_20250124","name":"bash"}]`, `tools[0].type: "bash_20250124" is not supported: use custom, with an input_schema`},
	{tools + `,"tool_choice":"any"`, `tool_choice: must be an object, got a string`},
	{tools + `,"tool_choice":{"type":"required"}`, `tool_choice.type: unknown: "required"; use one of auto, any, tool, none`},
	{tools + `,"tool_choice":{"type":"tool"}`, `tool_choice.name: is required`},
	{tools + `,"tool_choice":{"type":"tool","name":"h"}`, `tool_choice.name: the tool "h" is not among the tools`},
	{`"tool_choice":{"type":"any"}`, `tool_choice.type: "any" needs tools`},
}

func TestRefusals(t *testing.T) {
	for _, r := range refusals {
		_, err := anthropic.ParseMessage([]byte(request(r[0])), profile(), envelope())
		var refused *infer.Error
		require.ErrorAs(t, err, &refused, r[0])
		require.True(t, strings.HasPrefix(refused.Message, r[1]), "%s: %s", r[0], refused.Message)
		require.True(t, strings.HasPrefix(refused.Message, refused.Param) || refused.Code == infer.CodeModelNotFound, "%s: %s", refused.Param, refused.Message)
		require.Contains(t, []int{400, 404}, openai.FromError(refused).Status)
	}
	_, err := anthropic.ParseMessage([]byte(`{`), profile(), envelope())
	require.ErrorContains(t, err, "The body is not valid JSON")
	_, err = anthropic.ParseCount([]byte(`{"model":"nope","messages":[{"role":"user","content":"a"}]}`), profile())
	require.ErrorContains(t, err, "does not exist")
}

func TestConversationsAreBounded(t *testing.T) {
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	for fields, want := range map[string]string{
		`"messages":[` + many(1<<16+1, `{"role":"user","content":""}`) + `]`:       "messages: has more than 65536 entries",
		said(many(1<<16, `{"type":"text","text":""}`)):                             "messages[0].content[65536].type: the conversation has more than 65536 blocks",
		`"tools":[` + many(1025, `{"name":"f","input_schema":{}}`) + `]`:           "tools: two tools",
		`"system":[` + many(1<<16+1, `{"type":"text","text":""}`) + `]`:            "system[65536].type: the conversation has more than 65536 blocks",
		`"messages":` + strings.Repeat("[", 200) + strings.Repeat("]", 200):        "The body nests deeper than 100 levels",
		`"stop_sequences":["` + strings.Repeat("x", 5000) + `"]`:                   "stop_sequences: has an entry of 5000 bytes",
		`"model":"` + strings.Repeat("m", 10_000) + `"`:                            "The model `mmm",
		said(`{"type":"` + strings.Repeat("t", 10_000) + `"}`):                     "messages[0].content[1].type: a block of type",
		`"messages":[{"role":"` + strings.Repeat("r", 10_000) + `","content":""}]`: "messages[0].role: unknown",
	} {
		_, err := anthropic.ParseMessage([]byte(request(fields)), profile(), envelope())
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 300)
	}
}
