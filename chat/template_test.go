package chat_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
)

// dump shows what a template gets.
const dump = `{% for m in messages %}{{ m | tojson }}
{% endfor %}{{ tools | tojson }}`

func parse(t testing.TB, source string, o chat.Options) *chat.Template {
	tmpl, err := chat.Parse(source, o)
	require.NoError(t, err)
	return tmpl
}

func conversation(messages ...string) *infer.ChatInput {
	in := &infer.ChatInput{}
	for _, m := range messages {
		in.Messages = append(in.Messages, json.RawMessage(m))
	}
	return in
}

func render(t testing.TB, tmpl *chat.Template, in *infer.ChatInput) string {
	got, err := tmpl.Render(chat.Input{Chat: in})
	require.NoError(t, err)
	return got.Text
}

// requireInvalid checks an error for the client.
func requireInvalid(t testing.TB, err error, param, says string) {
	var e *infer.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, infer.CodeInvalid, e.Code)
	require.Equal(t, param, e.Param)
	require.Contains(t, e.Message, says)
}

func TestMessagesReachTheTemplate(t *testing.T) {
	tests := []struct{ name, format, in, want string }{
		{"key order is kept", "", `{"zeta":1,"role":"user","alpha":{"b":1.0,"a":[null]},"content":"x"}`,
			`{"zeta": 1, "role": "user", "alpha": {"b": 1.0, "a": [null]}, "content": "x"}`},
		{"parts become lines", "string", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_text","text":"b"},"c"]}`,
			`{"role": "user", "content": "a\nb\nc"}`},
		{"parts stay parts", "openai", `{"role":"user","content":[{"text":"a","type":"text"},{"type":"refusal","refusal":"b"}]}`,
			`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}`},
		{"a string becomes a part", "openai", `{"role":"user","content":"a"}`,
			`{"role": "user", "content": [{"type": "text", "text": "a"}]}`},
		{"null content of tool calls", "string", `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"z\": 1, \"a\": \"<\"}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": "<"}}}]}`},
		{"absent content of tool calls", "openai", `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"name":"g"}}]}`,
			`{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g", "arguments": {}}}], "content": []}`},
		{"arguments that are an object", "", `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": 2}}}]}`},
		{"no tool calls", "", `{"role":"assistant","content":"x","tool_calls":[]}`, `{"role": "assistant", "content": "x"}`},
		{"null tool calls", "", `{"role":"assistant","content":"x","tool_calls":null}`, `{"role": "assistant", "content": "x"}`},
		{"reasoning", "", `{"role":"assistant","content":"x","reasoning":"r"}`, `{"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "r"}`},
		{"reasoning content", "", `{"role":"assistant","content":null,"reasoning_content":"r"}`, `{"role": "assistant", "content": "", "reasoning_content": "r", "reasoning": "r"}`},
		{"tool", "", `{"role":"tool","tool_call_id":"c","content":"{\"t\": 1}"}`, `{"role": "tool", "tool_call_id": "c", "content": "{\"t\": 1}"}`},
		{"empty content", "", `{"role":"developer","content":""}`, `{"role": "developer", "content": ""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl := parse(t, dump, chat.Options{ContentFormat: tt.format})
			require.Equal(t, tt.want+"\nnull", render(t, tmpl, conversation(tt.in)))
		})
	}
}

func TestBadMessages(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	tests := []struct{ name, in, param, says string }{
		{"not JSON", `{"role"`, "messages[0]", "malformed JSON"},
		{"not an object", `["user"]`, "messages[0]", "must be an object"},
		{"too deep", `{"role":"user","content":"x","deep":` + deep + `}`, "messages[0]", "64 levels"},
		{"no role", `{"content":"x"}`, "messages[0].role", "is required"},
		{"role of another type", `{"role":7,"content":"x"}`, "messages[0].role", "must be a string"},
		{"unknown role", `{"role":"wizard","content":"x"}`, "messages[0].role", `one of system, developer, user, assistant, tool, function, got "wizard"`},
		{"null content", `{"role":"user","content":null}`, "messages[0].content", "is required"},
		{"no content", `{"role":"assistant"}`, "messages[0].content", "is required"},
		{"number as content", `{"role":"user","content":7}`, "messages[0].content", "must be a string or a list"},
		{"image", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}`, "messages[0].content[1].type", `"image_url" is not supported`},
		{"part without type", `{"role":"user","content":[{"text":"a"}]}`, "messages[0].content[0].type", "is required"},
		{"part without text", `{"role":"user","content":[{"type":"text"}]}`, "messages[0].content[0].text", "must be a string"},
		{"part that is a number", `{"role":"user","content":[1]}`, "messages[0].content[0]", "must be an object"},
		{"tool calls", `{"role":"assistant","tool_calls":"x"}`, "messages[0].tool_calls", "must be a list"},
		{"tool call", `{"role":"assistant","tool_calls":[1]}`, "messages[0].tool_calls[0]", "must be an object"},
		{"function", `{"role":"assistant","tool_calls":[{"id":"x"}]}`, "messages[0].tool_calls[0].function", "must be an object"},
		{"arguments", `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}`, "messages[0].tool_calls[0].function.arguments", "malformed JSON"},
	}
	tmpl := parse(t, dump, chat.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tmpl.Render(chat.Input{Chat: conversation(tt.in)})
			requireInvalid(t, err, tt.param, tt.says)
		})
	}
	_, err := tmpl.Render(chat.Input{Chat: conversation()})
	requireInvalid(t, err, "messages", "must not be empty")
	_, err = tmpl.Render(chat.Input{})
	requireInvalid(t, err, "messages", "required")
}

func TestToolsKeepTheirOrder(t *testing.T) {
	tmpl := parse(t, `{{ tools | tojson }}|{{ tools | tojson(indent=1) if tools else tools is none }}`, chat.Options{})
	in := conversation(`{"role":"user","content":"x"}`)
	in.Tools = json.RawMessage(`[{"z":1,"a":"é<"}]`)
	require.Equal(t, "[{\"z\": 1, \"a\": \"é<\"}]|[\n {\n  \"z\": 1,\n  \"a\": \"é<\"\n }\n]", render(t, tmpl, in))
	for _, none := range []string{"", "null", "[]"} {
		in.Tools = json.RawMessage(none)
		require.Equal(t, "null|True", render(t, tmpl, in))
	}
	in.Tools = json.RawMessage(`{}`)
	_, err := tmpl.Render(chat.Input{Chat: in})
	requireInvalid(t, err, "tools", "must be a list")
	in.Tools = json.RawMessage("[{}" + strings.Repeat(",{}", 1<<20) + "]")
	_, err = tmpl.Render(chat.Input{Chat: in})
	requireInvalid(t, err, "tools", "more than 1048576 values")
	in.Tools = json.RawMessage(`[`)
	_, err = tmpl.Render(chat.Input{Chat: in})
	requireInvalid(t, err, "tools", "malformed")
}

func TestVariables(t *testing.T) {
	tmpl := parse(t, `{{ bos_token }}{{ eos_token }}{{ documents is none }}{{ add_generation_prompt }}{{ strftime_now('%d %b %Y') }}{{ a }}{{ b }}`,
		chat.Options{BOSToken: "<s>", EOSToken: "</s>", Now: func() time.Time { return time.Date(2025, 7, 4, 0, 0, 0, 0, time.UTC) }})
	in := conversation(`{"role":"user","content":"x"}`)
	in.AddGenerationPrompt = true
	in.TemplateKwargs = json.RawMessage(`{"a": "request"}`)
	got, err := tmpl.Render(chat.Input{Chat: in, DefaultKwargs: json.RawMessage(`{"a": "default", "b": true}`)})
	require.NoError(t, err)
	require.Equal(t, "<s></s>TrueTrue04 Jul 2025requestTrue", got.Text)
}

func TestBadKwargs(t *testing.T) {
	tmpl := parse(t, "x", chat.Options{})
	for raw, param := range map[string]string{
		`[]`:                  "chat_template_kwargs",
		`{`:                   "chat_template_kwargs",
		`{"messages": []}`:    "chat_template_kwargs.messages",
		`{"tools": []}`:       "chat_template_kwargs.tools",
		`{"chat_template":1}`: "chat_template_kwargs.chat_template",
	} {
		in := conversation(`{"role":"user","content":"x"}`)
		in.TemplateKwargs = json.RawMessage(raw)
		_, err := tmpl.Render(chat.Input{Chat: in})
		requireInvalid(t, err, param, "")
	}
}

func TestContentFormatIsDetected(t *testing.T) {
	loops := `{% for m in messages %}{% for c in m.content %}[{{ c.text }}]{% endfor %}{% endfor %}`
	in := conversation(`{"role":"user","content":"x"}`, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`)
	require.Equal(t, "[x][a][b]", render(t, parse(t, loops, chat.Options{}), in))
	require.Equal(t, "x;a\nb;", render(t, parse(t, `{% for m in messages %}{{ m.content }};{% endfor %}`, chat.Options{ContentFormat: "auto"}), in))
	_, err := chat.Parse("x", chat.Options{ContentFormat: "xml"})
	requireInvalid(t, err, "chat_template_content_format", `"xml"`)
}

func TestTemplateFailures(t *testing.T) {
	in := conversation(`{"role":"user","content":"x"}`)
	tests := []struct{ name, source, says string }{
		{"raises", "\n\n{{ raise_exception('no') }}", "no"},
		{"uses undefined", "\n{{ nope.x }}", "the chat template failed: line 2: 'nope' is undefined"},
		{"never ends", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "the template was stopped"},
		{"writes too much", "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "limit of 4096 bytes"},
		{"calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, tt.source, chat.Options{MaxOutput: 4096}).Render(chat.Input{Chat: in})
			requireInvalid(t, err, "messages", tt.says)
			if tt.name == "raises" {
				var e *infer.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, "no", e.Message)
			}
		})
	}
	_, err := chat.Parse("a\n{% if %}", chat.Options{})
	requireInvalid(t, err, "chat_template", "line 2")
}

func TestContinueFinalMessage(t *testing.T) {
	keeps := `{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}`
	trims := `{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}`
	tests := []struct{ name, source, final, want string }{
		{"kept", keeps, `"Once upon"`, "<user>x<end><assistant>Once upon"},
		{"trailing blanks kept", keeps, `"Once upon "`, "<user>x<end><assistant>Once upon "},
		{"trailing blanks trimmed", trims, `"Once upon \n"`, "<user>x<end><assistant>Once upon"},
		{"leading blanks", trims, `"  Once"`, "<user>x<end><assistant>Once"},
		{"repeats the user", keeps, `"x"`, "<user>x<end><assistant>x"},
		{"last part", keeps, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "<user>x<end><assistant>a\nb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := conversation(`{"role":"user","content":"x"}`, `{"role":"assistant","content":`+tt.final+`}`)
			in.ContinueFinalMessage = true
			require.Equal(t, tt.want, render(t, parse(t, tt.source, chat.Options{}), in))
		})
	}
	for _, bad := range []struct{ source, final, says string }{
		{keeps, `"  "`, "no text to continue"},
		{"{{ messages[1].content | upper }}", `"abc"`, "unchanged"},
	} {
		in := conversation(`{"role":"user","content":"x"}`, `{"role":"assistant","content":`+bad.final+`}`)
		in.ContinueFinalMessage = true
		_, err := parse(t, bad.source, chat.Options{}).Render(chat.Input{Chat: in})
		requireInvalid(t, err, "continue_final_message", bad.says)
		in.AddGenerationPrompt = true
		_, err = parse(t, bad.source, chat.Options{}).Render(chat.Input{Chat: in})
		requireInvalid(t, err, "continue_final_message", "cannot both be true")
	}
}

func TestConcurrentRenders(t *testing.T) {
	u := loadUnderstudy(t)
	tmpl := parse(t, u.Template, chat.Options{})
	var wg sync.WaitGroup
	for range 8 {
		for _, c := range u.Cases {
			wg.Go(func() {
				got, err := tmpl.Render(chat.Input{Chat: &infer.ChatInput{
					Messages: c.Messages, Tools: c.Tools,
					AddGenerationPrompt: c.AddGenerationPrompt, TemplateKwargs: c.ChatTemplateKwargs,
				}})
				if err != nil || got.Text != c.Rendered {
					t.Errorf("got %q, %v", got.Text, err)
				}
			})
		}
	}
	wg.Wait()
}
