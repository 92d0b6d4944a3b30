package chat

import (
	"strings"

	"github.com/troupe-llm/troupe/chat/jinja"
	"github.com/troupe-llm/troupe/infer"
)

// cutAtFinal ends the prompt right after the final message's text, so that the
// model continues it. It is transformers' rule (render_jinja_template): blanks that
// the template kept at the end stay, those it trimmed stay away.
func cutAtFinal(prompt jinja.Text, last *jinja.Dict) (jinja.Text, error) {
	const param = "continue_final_message"
	final := finalText(last)
	core := strings.TrimSpace(final)
	if core == "" {
		return jinja.Text{}, infer.Errorf(infer.CodeInvalid, param,
			"%s is set, but the final message has no text to continue", param)
	}
	at := strings.LastIndex(prompt.String(), core)
	if at < 0 {
		return jinja.Text{}, infer.Errorf(infer.CodeInvalid, param,
			"%s is set, but the chat template does not show the final message unchanged", param)
	}
	end := at + len(core)
	if strings.HasPrefix(final, core) && strings.HasPrefix(prompt.String()[at:], final) {
		end = at + len(final)
	}
	return prompt.Slice(0, end), nil
}

// finalText returns the text of a message, or of its last part.
func finalText(m *jinja.Dict) string {
	if m == nil {
		return ""
	}
	content, _ := m.Get("content")
	if list, ok := content.(*jinja.List); ok && len(list.Items) > 0 {
		if part, ok := list.Items[len(list.Items)-1].(*jinja.Dict); ok {
			content, _ = part.Get("text")
		}
	}
	text, _ := content.(jinja.Text)
	return text.String()
}
