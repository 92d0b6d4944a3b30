package toolcall

import (
	"strings"

	"github.com/troupe-llm/troupe/chat/internal/marker"
)

const (
	xmlCall         = "<tool_call>"
	xmlCallEnd      = "</tool_call>"
	xmlFunction     = "<function="
	xmlFunctionEnd  = "</function>"
	xmlParameter    = "<parameter="
	xmlParameterEnd = "</parameter>"
)

type xmlState uint8

const (
	xmlText   xmlState = iota
	xmlOpened          // behind <tool_call>
	xmlName            // behind <function=
	xmlBody            // between parameters
	xmlKey             // behind <parameter=
	xmlValue
	xmlJSON // the arguments are a JSON object
)

// xml is the form of Qwen3-Coder and Qwen3.5 and later:
//
//	<tool_call>
//	<function=name>
//	<parameter=key>
//	value
//	</parameter>
//	</function>
//	</tool_call>
//
// https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct (chat_template.jinja and
// qwen3coder_tool_parser.py). A value is text between the line ends next to its tags; the
// tool's schema gives its type. Strings are streamed, other values come out whole.
//
// Taken as well: a missing <tool_call>, a missing </parameter>, a JSON object in place of the
// parameters (as Llama 3.1 writes it), and within a value the tags themselves where no tag
// can stand. Other text between parameters is dropped.
type xml struct {
	out   *sink
	state xmlState
	find  *marker.Matcher // of xmlText and xmlBody
	held  []byte          // since a tag, as long as it may be no call; or the name or key
	start int             // length of that tag
	owed  bool            // </tool_call> may follow the last call

	schemas map[string]*parameters // by tool; read once, an output may call very often
	params  *parameters            // of the open call
	given   map[string]bool        // declared parameters that came
	count   int                    // parameters that came
	object  *value                 // xmlJSON, and behind it

	types []string
	pend  []byte // text that may be the end of the value
	first bool   // nothing of the value came: a line end is not part of it
	whole []byte // the value, if it comes out whole
	quote *quoter
}

func newXML(out *sink) *xml {
	x := &xml{out: out, schemas: map[string]*parameters{}}
	x.text()
	return x
}

// text goes to text outside calls.
func (x *xml) text() {
	x.state, x.find, x.held = xmlText, marker.New(xmlCall, xmlFunction, xmlCallEnd), nil
}

func (x *xml) step(c byte) {
	switch x.state {
	case xmlText, xmlBody:
		x.stepFind(c)
	case xmlOpened:
		x.stepOpened(c)
	case xmlName, xmlKey:
		x.stepName(c)
	case xmlValue:
		x.stepValue(c)
	case xmlJSON:
		x.stepJSON(c)
	}
}

func (x *xml) stepFind(c byte) {
	if x.state == xmlBody && c == '{' && x.count == 0 && x.object == nil && x.find.Held() == 0 {
		x.state, x.object = xmlJSON, &value{put: x.out.arg}
		x.stepJSON(c)
		return
	}
	released, hit := x.find.Step(c)
	switch {
	case x.state == xmlText:
		x.out.content(released...)
	case x.object != nil && x.object.loose:
		x.out.args(released...)
	}
	if hit != "" {
		x.tag(hit)
	}
}

// tag takes a tag in text or between parameters.
func (x *xml) tag(hit string) {
	if x.state == xmlBody && hit != xmlParameter {
		x.closeCall()
		x.text()
		if hit != xmlCall {
			x.owed = hit == xmlFunctionEnd
			return
		}
	}
	switch {
	case hit == xmlParameter && x.object == nil:
		x.state, x.held = xmlKey, nil
	case hit == xmlParameter:
	case hit == xmlCall, hit == xmlFunction:
		x.held, x.start, x.state = []byte(hit), len(hit), xmlOpened
		if hit == xmlFunction {
			x.state = xmlName
		}
	case x.owed && x.out.afterCall():
		x.owed = false
		x.out.dropBlanks()
	default:
		x.out.content([]byte(hit)...)
	}
}

func (x *xml) stepOpened(c byte) {
	x.held = append(x.held, c)
	switch word := trimBlanks(string(x.held[x.start:])); {
	case word == xmlFunction:
		x.state = xmlName
	case strings.HasPrefix(xmlFunction, word) && len(x.held) < maxBlanks:
	default:
		x.reject()
	}
}

// reject makes text of the tag that began what is held; the rest is read again.
func (x *xml) reject() {
	held, n := x.held, x.start
	x.text()
	x.out.content(held[:n]...)
	for _, c := range held[n:] {
		x.step(c)
	}
}

// stepName reads a function's name or a parameter's.
func (x *xml) stepName(c byte) {
	function := x.state == xmlName
	if c != '>' {
		x.held = append(x.held, c)
		switch {
		case c != '\n' && c != '<' && len(x.held) <= maxBlanks+maxName:
		case function:
			x.reject()
		default:
			x.body()
		}
		return
	}
	name := string(x.held)
	if function {
		name = name[strings.LastIndex(name, xmlFunction)+len(xmlFunction):]
	}
	name = strings.Trim(name, " \t\"'")
	switch {
	case function && (name == "" || len(name) > maxName):
		x.held = append(x.held, c)
		x.reject()
	case function:
		x.open(name)
	default:
		x.parameter(name)
	}
}

func (x *xml) open(name string) {
	x.out.start(name)
	tool := x.out.tools[name]
	if tool == nil {
		name = "" // unknown tools share an empty schema
	}
	if x.schemas[name] == nil {
		x.schemas[name] = parametersOf(tool)
	}
	x.params, x.given, x.count, x.object = x.schemas[name], map[string]bool{}, 0, nil
	x.body()
}

// body goes between parameters.
func (x *xml) body() {
	x.state, x.held = xmlBody, nil
	x.find = marker.New(xmlParameter, xmlFunctionEnd, xmlCallEnd, xmlCall)
}

// stepJSON passes an object on. One that is no JSON ends at the first end tag.
func (x *xml) stepJSON(c byte) {
	switch x.object.step(c) {
	case done:
		x.body()
	case bad:
		x.object.loosen()
		x.body()
		x.stepFind(c)
	}
}

func (x *xml) closeCall() {
	if x.object != nil {
		x.out.stop(x.object.loose)
		return
	}
	if x.count == 0 {
		x.out.args('{')
	}
	x.out.args('}')
	x.out.stop(false)
}

// parameter starts a value.
func (x *xml) parameter(key string) {
	if x.count == 0 {
		x.out.args('{')
	} else {
		x.out.args(',', ' ')
	}
	x.count++
	if _, declared := x.params.Properties[key]; declared {
		x.given[key] = true
	}
	x.out.args(quote(key)...)
	x.out.args(':', ' ')
	x.state, x.pend, x.first, x.whole, x.quote = xmlValue, nil, true, nil, nil
	if x.types = x.params.types(key); len(x.types) == 1 && x.types[0] == "string" {
		x.stream()
	}
}

// stream lets the value out as a string from here on.
func (x *xml) stream() {
	x.out.args('"')
	x.quote = &quoter{put: x.out.arg}
	x.quote.add(x.whole...)
	x.whole = nil
}

func (x *xml) end() {
	switch x.state {
	case xmlText:
		x.out.content(x.find.Flush()...)
	case xmlOpened, xmlName:
		x.out.content(x.held...)
	case xmlValue:
		x.endValue()
	}
}
