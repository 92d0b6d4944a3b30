package actors

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// parsing says how the output of a chat is taken apart. It does not change; each
// sequence has an outputParser of its own.
type parsing struct {
	thoughts string // family of models that think, "" = they are not told apart
	options  reasoning.Options
	format   string // of calls, "" = they are not looked for
	model    string // the model's own format, which its ids are made for
	tools    *toolcall.Set
	single   bool     // the first call only
	forced   bool     // all of the answer is calls: other text is the start of one that was cut
	markers  []string // of both, which the parsers need to see
}

// parsing returns nil for a request whose output is nothing but text.
func (e *Engine) parsing(req *infer.Request, prompts []*prompt) (*parsing, *infer.Error) {
	p := &parsing{}
	if req.Chat != nil && e.config.ReasoningParser != "" {
		p.thoughts = e.config.ReasoningParser
		p.options = reasoning.Options{Prompt: prompts[0].tail, Thinking: e.thinking(req.Chat), Tools: req.Tools != nil}
		p.markers = reasoning.Markers(p.thoughts)
	}
	if req.Tools != nil {
		p.format, p.model = e.callFormat(req.Tools), e.config.ToolCallParser
		var err error
		if p.tools, err = toolcall.NewSet(toolsOf(req.Tools)); err != nil {
			return nil, infer.AsError(err)
		}
		p.single, p.forced = req.Tools.Single, req.Tools.Forced
		p.markers = slices.Concat(p.markers, toolcall.Markers(p.format))
	}
	if p.thoughts == "" && p.format == "" {
		return nil, nil
	}
	if _, err := p.newParser(); err != nil { // the same for every sequence
		return nil, infer.AsError(err)
	}
	return p, nil
}

func toolsOf(use *infer.ToolUse) []toolcall.Tool {
	tools := make([]toolcall.Tool, len(use.Tools))
	for i, t := range use.Tools {
		tools[i] = toolcall.Tool{Name: t.Name, Parameters: t.Parameters}
	}
	return tools
}

// switches are the names under which templates know that a model is to think.
var switches = []string{"enable_thinking", "thinking"}

// thinking returns what the arguments of the template say, nil if nothing.
func (e *Engine) thinking(in *infer.ChatInput) *bool {
	for _, raw := range []json.RawMessage{in.TemplateKwargs, e.config.DefaultChatTemplateKwargs} {
		var kwargs map[string]json.RawMessage
		if len(raw) == 0 || json.Unmarshal(raw, &kwargs) != nil {
			continue
		}
		for _, name := range switches {
			if value := string(kwargs[name]); value == "true" || value == "false" {
				on := value == "true"
				return &on
			}
		}
	}
	return nil
}

// maxTail is how much of a prompt's end says whether the output begins within thoughts.
const maxTail = 256

func tailOf(text string) string { return strings.Clone(text[max(0, len(text)-maxTail):]) }

func (p *parsing) newParser() (*outputParser, error) {
	o := &outputParser{parsing: p}
	var err error
	if p.thoughts != "" {
		if o.thoughts, err = reasoning.New(p.thoughts, p.options); err != nil {
			return nil, err
		}
	}
	if p.format != "" {
		o.calls, err = p.tools.New(p.format)
	}
	return o, err
}

// outputParser takes the text of one sequence apart: thoughts first, and the calls
// out of what is no thought. What is only looked at in the end, the number of
// tokens that were thoughts, costs four bytes for each token.
type outputParser struct {
	*parsing
	thoughts *reasoning.Parser // nil = all is answer
	calls    toolcall.Parser   // nil = all is content
	ends     []int32           // by token: bytes of text up to its end; only with thoughts
	numBytes int32
}

// decode returns the text of a token. A special token is text if a parser looks for
// it, and for no one else.
func (o *outputParser) decode(t *tokenizer.Tokenizer, d *tokenizer.Decoder, skipSpecial bool, id int32) string {
	text := ""
	if !skipSpecial || !t.IsSpecial(id) || isPart(t.TokenBytes(id), o.markers) {
		text = d.Push(id)
	}
	if o.thoughts != nil {
		o.numBytes += int32(len(text))
		o.ends = append(o.ends, o.numBytes)
	}
	return text
}

// parse takes the next text; last says that no more comes. nil = nothing is decided.
func (o *outputParser) parse(text string, last bool) *infer.Parsed {
	var pieces []infer.Piece
	if o.thoughts == nil {
		pieces = o.answer(pieces, text)
	} else {
		split := o.thoughts.Push(text)
		if last {
			split = append(split, o.thoughts.Flush()...)
		}
		for _, piece := range split {
			if piece.Part == reasoning.Reasoning {
				pieces = append(pieces, infer.Piece{Kind: infer.PieceReasoning, Text: piece.Text})
				continue
			}
			pieces = o.answer(pieces, piece.Text)
		}
	}
	if last && o.calls != nil {
		pieces = o.appendEvents(pieces, o.calls.Flush())
	}
	return &infer.Parsed{Pieces: pieces}
}

// answer appends the pieces of text that is no thought.
func (o *outputParser) answer(pieces []infer.Piece, text string) []infer.Piece {
	switch {
	case text == "":
		return pieces
	case o.calls == nil:
		return append(pieces, infer.Piece{Kind: infer.PieceContent, Text: text})
	}
	return o.appendEvents(pieces, o.calls.Push(text))
}

func (o *outputParser) appendEvents(pieces []infer.Piece, events []toolcall.Event) []infer.Piece {
	for _, e := range events {
		piece := infer.Piece{Index: e.Index, Text: e.Text}
		switch e.Kind {
		case toolcall.CallStart:
			var random [16]byte
			_, _ = rand.Read(random[:]) // never fails
			piece.Kind, piece.Name, piece.ID = infer.PieceCall, e.Name, toolcall.NewID(o.model, random)
		case toolcall.Arguments:
			piece.Kind = infer.PieceArguments
		case toolcall.CallEnd:
			piece.Kind, piece.Incomplete = infer.PieceCallEnd, e.Incomplete
		}
		isContent := piece.Kind == infer.PieceContent
		if isContent && o.forced || !isContent && o.single && e.Index > 0 {
			continue
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// numThoughts returns how many tokens were thoughts, at the end of the text.
func (o *outputParser) numThoughts() int {
	if o.thoughts == nil {
		return 0
	}
	start, end := o.thoughts.Span()
	n, begin := 0, 0
	for _, e := range o.ends {
		if begin >= start && int(e) <= end && start < end {
			n++
		}
		begin = int(e)
	}
	return n
}
