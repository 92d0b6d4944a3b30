package actors

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// grammar compiles what the output of a request has to be like; nil = anything. It
// returns what it was made of, too.
func (e *Engine) grammar(ctx context.Context, req *infer.Request) (infer.Grammar, form, *infer.Error) {
	use := req.Tools
	answer := answerSchema(req.Structured)
	if use == nil || !use.Forced && (answer == nil || !e.enforceable()) {
		g, err := e.grammars.compile(ctx, req.Structured)
		return g, form{Structured: req.Structured}, err
	}
	calls, err := toolcall.Grammar(e.callFormat(use), toolsOf(use), toolcall.Choice{Name: use.Name}, !use.Single)
	if err != nil {
		return nil, form{}, infer.AsError(err)
	}
	frame := frameOf(&calls, use)
	if !use.Forced {
		frame.Answer = &grammar.FramedValue{Schema: answer, Param: req.Structured.Param, Path: req.Structured.Path}
	}
	g, compileErr := e.grammars.compileFrame(ctx, frame)
	return g, form{Frame: frame}, compileErr
}

// answerSchema returns the schema of an answer in JSON beside which calls can be told
// apart, nil for any other form.
func answerSchema(s *infer.StructuredOutput) []byte {
	switch {
	case s == nil:
		return nil
	case s.JSONObject:
		return []byte(anyObject)
	}
	return s.JSONSchema
}

// callFormat returns the format in which the model writes its calls. One that cannot
// be enforced gives way to the generic one, as all do in vLLM; so does one with
// special tokens, which no grammar lets through.
func (e *Engine) callFormat(use *infer.ToolUse) string {
	format := e.config.ToolCallParser
	if format == "" || use.Forced && !e.enforceable() {
		return toolcall.Generic
	}
	return format
}

// canEnforce reports whether calls in a format can be made of ordinary tokens.
func canEnforce(format string, t *tokenizer.Tokenizer) bool {
	return toolcall.Enforceable(format) && !hasSpecial(toolcall.Markers(format), t)
}

// hasSpecial reports whether a special token is part of a marker.
func hasSpecial(markers []string, t *tokenizer.Tokenizer) bool {
	for id := range int32(t.VocabSize()) {
		if t.IsSpecial(id) && isPart(t.TokenBytes(id), markers) {
			return true
		}
	}
	return false
}

func isPart(token []byte, markers []string) bool {
	return len(token) > 0 && slices.ContainsFunc(markers, func(m string) bool { return strings.Contains(m, string(token)) })
}

// anyObject is the schema of arguments about which a tool says nothing.
const anyObject = `{"type":"object"}`

// frameOf returns the grammar of calls. Their arguments keep to the schemas only if
// calls are forced: without that, a schema must not be a reason to refuse a request.
func frameOf(form *toolcall.Form, use *infer.ToolUse) *grammar.Frame {
	f := &grammar.Frame{Begin: form.Begin, Separator: form.Separator, End: form.End, Max: form.MaxCalls}
	for _, c := range form.Calls {
		v := grammar.FramedValue{Prefix: c.Prefix, Suffix: c.Suffix, Schema: c.Schema}
		if !use.Forced || bytes.Equal(bytes.Join(bytes.Fields(c.Schema), nil), []byte("{}")) {
			v.Schema = []byte(anyObject)
		}
		for i := range use.Tools {
			if use.Tools[i].Name == c.Name {
				v.Param = use.Tools[i].Param
			}
		}
		f.Values = append(f.Values, v)
	}
	return f
}
