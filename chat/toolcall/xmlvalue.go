package toolcall

import (
	"slices"
	"strings"
)

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
