package chat

import (
	"encoding/json"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// Options set up a template. The zero value is usable.
type Options struct {
	BOSToken, EOSToken string           // the template's bos_token and eos_token
	Now                func() time.Time // what strftime_now reads; nil = time.Now
	MaxOutput          int              // bytes of rendered text; 0 = the default
	Timeout            time.Duration    // of one rendering; 0 = the default
	ContentFormat      string           // auto (also ""), string or openai
}

// Template is a parsed chat template, safe for concurrent use.
type Template struct {
	opts Options
}

// Input is one conversation to render.
type Input struct {
	Chat          *infer.ChatInput
	DefaultKwargs json.RawMessage // object or nil; Chat.TemplateKwargs override it
	ControlTokens []string        // spellings that must stay plain text where the client wrote them
}

// Rendered is prompt text. Literal lists the byte ranges, in order, that came
// from client text and spell a control token.
type Rendered struct {
	Text    string
	Literal []infer.Span
}

// Parse compiles a template.
func Parse(source string, o Options) (*Template, error) {
	return &Template{opts: o}, nil
}

// Render renders a conversation.
func (t *Template) Render(in Input) (Rendered, error) {
	return Rendered{}, infer.Errorf(infer.CodeNotImplemented, "messages", "chat templates are not available")
}
