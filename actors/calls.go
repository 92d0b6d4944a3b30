package actors

import (
	"bytes"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// grammar compiles what the output of a request has to be like; nil = anything.
func (e *Engine) grammar(req *infer.Request) (infer.Grammar, *infer.Error) {
	if req.Tools == nil || !req.Tools.Forced {
		return e.grammars.compile(req.Structured)
	}
	format := e.callFormat(req.Tools)
	form, err := toolcall.Grammar(format, toolsOf(req.Tools), toolcall.Choice{Name: req.Tools.Name}, !req.Tools.Single)
	if err != nil {
		return nil, infer.AsError(err)
	}
	return e.grammars.compileFrame(frameOf(&form, req.Tools))
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

func frameOf(form *toolcall.Form, use *infer.ToolUse) *grammar.Frame {
	f := &grammar.Frame{Begin: form.Begin, Separator: form.Separator, End: form.End, Max: form.MaxCalls}
	for _, c := range form.Calls {
		v := grammar.FramedValue{Prefix: c.Prefix, Suffix: c.Suffix, Schema: c.Schema}
		if bytes.Equal(bytes.Join(bytes.Fields(c.Schema), nil), []byte("{}")) {
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
