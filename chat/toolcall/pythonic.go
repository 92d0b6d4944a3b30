package toolcall

import (
	"strings"

	"github.com/troupe-llm/troupe/chat/internal/marker"
)

const (
	pythonStart = "<|python_start|>"
	pythonEnd   = "<|python_end|>"
)

type pythonicState uint8

const (
	pythonicText  pythonicState = iota
	pythonicMark                // behind pythonStart: a bracket must come
	pythonicList                // behind the bracket or a comma between calls: a name must come
	pythonicName                // in a function's name
	pythonicFirst               // behind the parenthesis: a keyword, or none at all
	pythonicKey                 // in a keyword
	pythonicEqual               // behind a keyword
	pythonicValue               // in a value
	pythonicAfter               // behind a value
	pythonicNext                // behind a comma between arguments
	pythonicCall                // behind a call
)

// pythonic is a Python list of calls with keyword arguments, [f(a=1), g(b='x')]: Llama 3.2,
// Llama 4 (where <|python_start|> and <|python_end|> may surround it), ToolACE.
// https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/text_prompt_format.md
// ("Zero shot function calling"), vllm/tool_parsers/pythonic_tool_parser.py.
//
// Values are literals; they become JSON as json.dumps would write it, in their order. Unlike
// in vLLM, calls are found behind text too (vllm-project/vllm#22917), if the first of them
// names a known tool. What can't be read ends the call as incomplete, and the rest is text.
type pythonic struct {
	out   *sink
	state pythonicState
	find  *marker.Matcher
	held  []byte // since the bracket, or the start of a further call, as long as it may be no call
	start int    // bytes of held that are not read again if it is none
	word  []byte // the name or keyword being read
	name  string
	count int // arguments of the call
	value *literal
	owed  bool // pythonEnd may follow
}

func newPythonic(out *sink) *pythonic {
	return &pythonic{out: out, find: marker.New("[", pythonStart, pythonEnd)}
}

func (p *pythonic) step(c byte) {
	switch p.state {
	case pythonicText:
		p.stepText(c)
		return
	case pythonicValue:
		p.stepValue(c)
		return
	case pythonicName, pythonicKey:
		if isIdentifier(c) || c == '.' && p.state == pythonicName {
			if p.word = append(p.word, c); len(p.word) > maxName {
				p.fail(c)
				return
			}
			p.hold(c)
			return
		}
	}
	if isBlank(c) && p.blank() {
		if len(p.held) > 0 {
			p.hold(c)
		}
		return
	}
	p.token(c)
}

// blank says whether white space may stand here.
func (p *pythonic) blank() bool {
	if p.state == pythonicKey {
		p.state = pythonicEqual
	}
	return p.state != pythonicName && len(p.held) < maxBlanks+maxName
}

// hold keeps a byte for the case that this is no call.
func (p *pythonic) hold(c byte) {
	if !p.out.open {
		p.held = append(p.held, c)
	}
}

func (p *pythonic) stepText(c byte) {
	released, hit := p.find.Step(c)
	p.out.content(released...)
	switch hit {
	case "":
	case "[", pythonStart:
		p.state, p.held, p.start = pythonicList, append(p.held[:0], hit...), len(hit)
		if hit == pythonStart {
			p.state = pythonicMark
		}
	default:
		if p.owed && p.out.afterCall() {
			p.owed = false
			p.out.dropBlanks()
			return
		}
		p.out.content([]byte(hit)...)
	}
}

// token takes a byte that is neither white space nor part of a word.
func (p *pythonic) token(c byte) {
	switch {
	case p.state == pythonicMark && c == '[':
		p.state = pythonicList
		p.hold(c)
	case p.state == pythonicList && isIdentifier(c):
		p.begin(pythonicName, c)
	case p.state == pythonicList && c == ']' && len(p.held) == 0: // a comma behind the last call
		p.leave()
	case p.state == pythonicName && c == '(' && p.plausible():
		p.state, p.count = pythonicFirst, 0
		p.hold(c)
	case (p.state == pythonicFirst || p.state == pythonicNext) && isIdentifier(c):
		p.begin(pythonicKey, c)
	case (p.state == pythonicKey || p.state == pythonicEqual) && c == '=':
		p.argument()
	case (p.state == pythonicFirst || p.state == pythonicAfter || p.state == pythonicNext) && c == ')':
		p.closeCall()
	case p.state == pythonicAfter && c == ',':
		p.state = pythonicNext
	case p.state == pythonicCall && c == ',':
		p.state = pythonicList
	case p.state == pythonicCall && c == ']':
		p.leave()
	default:
		p.fail(c)
	}
}

// begin starts a word.
func (p *pythonic) begin(state pythonicState, c byte) {
	p.state, p.word = state, append(p.word[:0], c)
	if state == pythonicName && len(p.held) == 0 {
		p.start = 0
	}
	p.hold(c)
}

// plausible says whether the name read may be called: in the middle of text only a tool's.
func (p *pythonic) plausible() bool {
	p.name = string(p.word)
	return p.name[0] > '9' && p.name[len(p.name)-1] != '.' && !strings.Contains(p.name, "..") &&
		(p.out.known(p.name) || !p.out.said() || p.out.afterCall())
}

// argument takes the = behind a keyword.
func (p *pythonic) argument() {
	p.open()
	sep := byte('{')
	if p.count > 0 {
		p.out.args(',')
		sep = ' '
	}
	p.count++
	p.out.args(sep)
	p.out.args(quote(string(p.word))...)
	p.out.args(':', ' ')
	p.state, p.value = pythonicValue, &literal{put: p.out.arg}
}

// open starts the call unless an argument did.
func (p *pythonic) open() {
	if !p.out.open {
		p.out.start(p.name)
		p.held = p.held[:0]
	}
}

func (p *pythonic) closeCall() {
	p.open()
	if p.count == 0 {
		p.out.args('{')
	}
	p.out.args('}')
	p.out.stop(false)
	p.state = pythonicCall
}

func (p *pythonic) stepValue(c byte) {
	switch p.value.step(c) {
	case done:
		p.state = pythonicAfter
	case over:
		p.state = pythonicAfter
		p.step(c)
	case bad:
		p.fail(c)
	}
}

// leave goes to text behind the list.
func (p *pythonic) leave() { p.state, p.held, p.owed = pythonicText, p.held[:0], true }

// fail takes a byte that can't stand where it does.
func (p *pythonic) fail(c byte) {
	if p.out.open {
		p.out.stop(true)
	}
	held, n := p.held, min(p.start, len(p.held))
	p.state, p.held, p.start = pythonicText, nil, 0
	p.out.content(held[:n]...)
	for _, b := range held[n:] {
		p.step(b)
	}
	p.step(c)
}

func (p *pythonic) end() {
	if p.state == pythonicText {
		p.out.content(p.find.Flush()...)
		return
	}
	if p.out.open {
		return
	}
	if p.state == pythonicFirst || p.state == pythonicKey || p.state == pythonicEqual {
		if p.out.known(p.name) {
			p.open()
			return
		}
	}
	p.out.content(p.held...)
}

// isIdentifier says whether a byte may stand in a Python name. All of UTF-8 beyond ASCII
// may, which is more than Python allows.
func isIdentifier(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
}
