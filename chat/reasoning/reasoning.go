package reasoning

import (
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/internal/marker"
)

// blanks is the white space that may stand around markers.
const blanks = " \t\r\n"

// maxBlanks is the number of bytes of white space that may stand before a start marker
// (or between a call's tag and its body). Longer runs are text.
const maxBlanks = 256

// Part says what a stretch of generated text is.
type Part uint8

// The parts. Markers belong to neither.
const (
	Content Part = iota
	Reasoning
)

// Piece is some text of one part.
type Piece struct {
	Part Part
	Text string // whole characters, unless the model wrote none
}

// Options say what the text alone cannot.
type Options struct {
	// Prompt is the rendered prompt, or at least its last characters. "" if unknown.
	Prompt string
	// Thinking is enable_thinking or thinking of chat_template_kwargs; nil if not given.
	Thinking *bool
	// Tools says that the text goes through a tool call parser next.
	Tools bool
}

// Parser splits one output. It must not be used by two goroutines at once.
type Parser struct {
	f     family
	tools bool
	state state
	first Part // the part of text at the start that no marker claims

	lead []byte          // stateLead: white space and part of a start marker; stateCall: tag and white space
	find *marker.Matcher // of the current state, nil when nothing is looked for

	pos        int // bytes taken
	start, end int // the reasoning within them, see Span
	open       bool

	out     []Piece
	pending []byte // text not yet in out
	part    Part   // of pending
}

type state uint8

const (
	stateLead    state = iota // at the start: is there a start marker?
	stateSeek                 // content in which a block may still start (mistral)
	stateInside               // in the block
	stateCall                 // in the block, behind the tag of a call: is it one?
	stateContent              // behind the block
)

// New returns a parser for one output of a model of the named family.
func New(name string, o Options) (*Parser, error) {
	f, err := lookup(name)
	if err != nil {
		return nil, err
	}
	p := &Parser{f: f, tools: o.Tools}
	switch f.opening(o) {
	case openInside:
		p.first = Reasoning
	case openClosed:
		p.state = stateContent
	}
	return p, nil
}

// Parse splits a whole output.
func Parse(name string, o Options, text string) (reasoning, content string, err error) {
	p, err := New(name, o)
	if err != nil {
		return "", "", err
	}
	var parts [2]strings.Builder
	for _, piece := range append(p.Push(text), p.Flush()...) {
		parts[piece.Part].WriteString(piece.Text)
	}
	return parts[Reasoning].String(), parts[Content].String(), nil
}

// Push takes the next text and returns what is decided, neighbours of one part joined.
func (p *Parser) Push(text string) []Piece {
	for i := range len(text) {
		p.pos++
		p.step(text[i])
	}
	return p.take(false)
}

// Flush ends the output: what was held back becomes text.
func (p *Parser) Flush() []Piece {
	switch p.state {
	case stateLead:
		p.begin()
	case stateCall:
		p.refuseCall()
	}
	if p.find != nil {
		p.text(p.find.Flush())
	}
	return p.take(true)
}

// Part returns the part of the text that comes next, as far as the text up to now tells.
func (p *Parser) Part() Part {
	switch p.state {
	case stateLead:
		return p.first
	case stateInside, stateCall:
		return Reasoning
	}
	return Content
}

// Span returns which bytes of all text taken are reasoning, [start, end); markers and
// text held back are not in it. Equal numbers mean none yet. After Flush it is final. A
// token counts as reasoning if its bytes lie within.
func (p *Parser) Span() (start, end int) {
	if !p.open {
		return p.start, p.end
	}
	held := len(p.lead)
	if p.find != nil {
		held += p.find.Held()
	}
	return p.start, p.pos - held
}

func (p *Parser) step(c byte) {
	switch p.state {
	case stateLead:
		p.stepLead(c)
	case stateSeek, stateInside:
		p.stepFind(c)
	case stateCall:
		p.stepCall(c)
	default:
		p.emit(Content, c)
	}
}

// stepLead waits for a start marker after white space.
func (p *Parser) stepLead(c byte) {
	p.lead = append(p.lead, c)
	word := strings.TrimLeft(string(p.lead), blanks)
	if word == "" && len(p.lead) < maxBlanks {
		return
	}
	for _, s := range p.f.starts {
		if s == word {
			p.lead = p.lead[:0]
			p.enter(p.pos)
			return
		}
		if word != "" && strings.HasPrefix(s, word) {
			return
		}
	}
	p.begin()
}

// begin settles that the output starts without a marker, and takes it from there.
func (p *Parser) begin() {
	lead := p.lead
	p.lead = nil
	switch {
	case p.first == Reasoning:
		p.enter(p.pos - len(lead))
	case p.f.anywhere:
		p.state, p.find = stateSeek, marker.New(slices.Concat(p.f.starts, p.f.ends)...)
	default:
		p.state = stateContent
	}
	p.again(lead)
}

// again puts bytes that were taken before through the machine, now in another state.
func (p *Parser) again(held []byte) {
	end := p.pos
	for i, c := range held {
		p.pos = end - len(held) + i + 1
		p.step(c)
	}
}

// enter starts the block at an offset.
func (p *Parser) enter(at int) {
	ends := p.f.ends
	if p.tools && p.f.callTag != "" {
		ends = append([]string{p.f.callTag}, ends...)
	}
	p.state, p.find = stateInside, marker.New(ends...)
	p.start, p.open = at, true
}

// leave ends the block at an offset; what follows is the answer.
func (p *Parser) leave(at int) {
	p.state, p.find = stateContent, nil
	p.end, p.open = at, false
}

// stepFind looks for the markers of stateSeek or stateInside.
func (p *Parser) stepFind(c byte) {
	released, hit := p.find.Step(c)
	p.text(released)
	switch {
	case hit == "":
	case hit == p.f.callTag:
		p.state, p.lead = stateCall, append(p.lead[:0], hit...)
	case p.state == stateInside:
		p.leave(p.pos - len(hit))
	case slices.Contains(p.f.starts, hit):
		p.enter(p.pos)
	default: // an end without a start: the block is over before it began
		p.state, p.find = stateContent, nil
	}
}

// stepCall decides whether the tag of a call is followed by one.
func (p *Parser) stepCall(c byte) {
	p.lead = append(p.lead, c)
	body := strings.TrimLeft(string(p.lead[len(p.f.callTag):]), blanks)
	switch {
	case strings.HasPrefix(body, "{"), body == "<function=":
		lead := p.lead
		p.lead = nil
		p.leave(p.pos - len(lead))
		p.again(lead)
	case strings.HasPrefix("<function=", body) && len(p.lead) < maxBlanks:
	default:
		p.refuseCall()
	}
}

// refuseCall makes the tag part of the thought.
func (p *Parser) refuseCall() {
	lead, n := p.lead, len(p.f.callTag)
	p.lead, p.state = nil, stateInside
	p.text(lead[:n])
	p.again(lead[n:])
}

// text emits bytes of the part that the state is in.
func (p *Parser) text(b []byte) {
	part := Content
	if p.state == stateInside {
		part = Reasoning
	}
	for _, c := range b {
		p.emit(part, c)
	}
}

func (p *Parser) emit(part Part, c byte) {
	if part != p.part {
		p.cut(len(p.pending))
		p.part = part
	}
	p.pending = append(p.pending, c)
}

// cut moves the first n pending bytes to out.
func (p *Parser) cut(n int) {
	if n > 0 {
		p.out = append(p.out, Piece{p.part, string(p.pending[:n])})
		p.pending = p.pending[:copy(p.pending, p.pending[n:])]
	}
}

// take hands out what is decided, without half a character unless it is the last.
func (p *Parser) take(last bool) []Piece {
	n := len(p.pending)
	if !last {
		n = marker.WholeRunes(p.pending)
	}
	p.cut(n)
	out := p.out
	p.out = nil
	return out
}
