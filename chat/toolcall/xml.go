package toolcall

import (
	"slices"
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
// Taken as well: a missing <tool_call>, a missing </parameter>, and within a value the tags
// themselves where no tag can stand. Text between parameters is dropped.
type xml struct {
	out   *sink
	state xmlState
	find  *marker.Matcher // of xmlText and xmlBody
	held  []byte          // since a tag, as long as it may be no call; or the name or key
	start int             // length of that tag
	owed  bool            // </tool_call> may follow the last call

	params parameters
	given  map[string]bool // declared parameters that came
	count  int             // parameters that came

	types []string
	pend  []byte // text that may be the end of the value
	first bool   // nothing of the value came: a line end is not part of it
	whole []byte // the value, if it comes out whole
	quote *quoter
}

func newXML(out *sink) *xml {
	x := &xml{out: out}
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
	}
}

func (x *xml) stepFind(c byte) {
	released, hit := x.find.Step(c)
	if x.state == xmlText {
		x.out.content(released...)
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
	case hit == xmlParameter:
		x.state, x.held = xmlKey, nil
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
	x.params, x.given, x.count = parametersOf(x.out.tools[name]), map[string]bool{}, 0
	x.body()
}

// body goes between parameters.
func (x *xml) body() {
	x.state, x.held = xmlBody, nil
	x.find = marker.New(xmlParameter, xmlFunctionEnd, xmlCallEnd, xmlCall)
}

func (x *xml) closeCall() {
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

func (x *xml) stepValue(c byte) {
	if x.first && c == '\n' {
		x.first = false
		return
	}
	x.first = false
	if len(x.pend) == 0 && c != '\n' && c != '<' {
		x.valueByte(c)
		return
	}
	x.pend = append(x.pend, c)
	for len(x.pend) > 0 {
		found, next := x.valueEnd(string(x.pend), false)
		switch found {
		case matchPart:
			return
		case matchYes:
			x.closeValue(next)
			return
		}
		x.valueByte(x.pend[0])
		x.pend = x.pend[:copy(x.pend, x.pend[1:])]
	}
}

func (x *xml) valueByte(c byte) {
	if x.quote != nil {
		x.quote.add(c)
		return
	}
	if x.whole = append(x.whole, c); len(x.whole) > maxHeld {
		x.stream()
	}
}

// closeValue ends the value and takes the tag behind it, "" at the end of the output.
func (x *xml) closeValue(next string) {
	if x.quote != nil {
		x.quote.flush()
		x.out.args('"')
	} else {
		x.out.args(coerce(string(x.whole), x.types)...)
	}
	x.body()
	if key, ok := strings.CutPrefix(next, xmlParameter); ok && key != "" {
		x.parameter(strings.TrimSuffix(key, ">"))
	} else if next != "" {
		x.tag(next)
	}
}

// valueEnd says whether text starts with the end of the value, and which tag comes next:
// </parameter> where another tag or the end of the output follows, </function> likewise,
// or on a new line the start of a declared parameter that has not come yet.
func (x *xml) valueEnd(text string, last bool) (match, string) {
	rest := strings.TrimPrefix(text, "\n")
	line := rest != text
	if rest == "" {
		return matchPart, ""
	}
	if behind, found := cutTag(rest, xmlParameterEnd); found != matchNo {
		return tagBehind(behind, found, last, xmlParameter, xmlFunctionEnd, xmlCallEnd)
	}
	if behind, found := cutTag(rest, xmlFunctionEnd); found != matchNo {
		found, next := tagBehind(behind, found, last, xmlCallEnd)
		if found == matchYes && next == "" {
			next = xmlFunctionEnd
		}
		return found, next
	}
	if line && !last {
		return x.parameterStart(rest)
	}
	return matchNo, ""
}

// cutTag is strings.CutPrefix for text that may be cut itself.
func cutTag(text, tag string) (rest string, found match) {
	if rest, ok := strings.CutPrefix(text, tag); ok {
		return rest, matchYes
	}
	if strings.HasPrefix(tag, text) {
		return "", matchPart
	}
	return "", matchNo
}

// tagBehind looks for one of the tags behind white space, behind a tag that was found.
func tagBehind(text string, found match, last bool, tags ...string) (match, string) {
	if found == matchPart {
		return matchPart, ""
	}
	rest := trimBlanks(text)
	if rest == "" && last {
		return matchYes, ""
	}
	if len(text)-len(rest) > maxBlanks {
		return matchNo, ""
	}
	best := matchNo
	for _, tag := range tags {
		switch _, found := cutTag(rest, tag); found {
		case matchYes:
			return matchYes, tag
		case matchPart:
			best = matchPart
		}
	}
	if best == matchPart && last {
		return matchYes, "" // the output was cut within the next tag
	}
	return best, ""
}

// parameterStart looks for a parameter's tag behind a value that was not closed.
func (x *xml) parameterStart(text string) (match, string) {
	key, found := cutTag(text, xmlParameter)
	if found != matchYes {
		return found, ""
	}
	name, closed := strings.CutSuffix(key, ">")
	_, declared := x.params.Properties[name]
	switch {
	case closed && declared && !x.given[name]:
		return matchYes, text
	case closed || len(name) > maxName || strings.ContainsAny(name, "\n<>"):
		return matchNo, ""
	}
	return matchPart, ""
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

// endValue deals with a value that the output ends in.
func (x *xml) endValue() {
	pend := slices.Clone(x.pend)
	for len(pend) > 0 {
		found, next := x.valueEnd(string(pend), true)
		if found == matchYes {
			x.closeValue(next)
			return
		}
		x.valueByte(pend[0])
		pend = pend[1:]
	}
	if x.quote == nil {
		x.out.args(x.whole...)
		return
	}
	x.quote.flush()
}
