package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString // text is the decoded value
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	text string
	line int
}

// describe names a token in a message.
func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokVarEnd:
		return "'}}'"
	case tokBlockEnd:
		return "'%}'"
	}
	return fmt.Sprintf("'%s'", t.text)
}

// lexer cuts a template into tokens by the rules of jinja2/lexer.py with
// trim_blocks and lstrip_blocks on.
type lexer struct {
	src         string
	pos         int
	line        int
	lineStart   bool // the text before pos ended a line, or there is none
	tokens      []token
	countedUpTo int // source position that line belongs to
}

// lex returns the tokens of a template, the last of them tokEOF.
func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.tokens, nil
}

// emit adds a token that starts at the current position.
func (l *lexer) emit(kind tokenKind, text string) {
	l.line += strings.Count(l.src[l.countedUpTo:l.pos], "\n")
	l.countedUpTo = l.pos
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: l.line})
}

func (l *lexer) errorf(format string, a ...any) error {
	line := l.line + strings.Count(l.src[l.countedUpTo:min(l.pos, len(l.src))], "\n")
	return &Error{Line: line, Message: fmt.Sprintf(format, a...)}
}

// next reads text up to a tag, and the tag.
func (l *lexer) next() error {
	tag := l.findTag()
	if tag < 0 {
		l.emit(tokData, l.src[l.pos:])
		l.pos = len(l.src)
		return nil
	}
	kind, sign := l.src[tag+1], byte(0)
	if tag+2 < len(l.src) && (l.src[tag+2] == '-' || l.src[tag+2] == '+') {
		sign = l.src[tag+2]
	}
	if text := l.stripBefore(l.src[l.pos:tag], kind, sign); text != "" {
		l.emit(tokData, text)
	}
	l.pos = tag + 2
	if sign != 0 {
		l.pos++
	}
	switch kind {
	case '#':
		return l.comment()
	case '{':
		l.emit(tokVarBegin, "{{")
		return l.inside("}}", tokVarEnd)
	}
	if body, ok := l.rawTag(l.pos, "raw"); ok {
		return l.raw(body)
	}
	l.emit(tokBlockBegin, "{%")
	return l.inside("%}", tokBlockEnd)
}

// findTag returns the position of the next "{{", "{%" or "{#", or -1.
func (l *lexer) findTag() int {
	for at := l.pos; ; at++ {
		i := strings.IndexByte(l.src[at:], '{')
		if i < 0 || at+i+1 >= len(l.src) {
			return -1
		}
		at += i
		switch l.src[at+1] {
		case '{', '%', '#':
			return at
		}
	}
}

// stripBefore applies "-" and lstrip_blocks to the text before a tag.
func (l *lexer) stripBefore(text string, kind, sign byte) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isSpace)
	case sign == '+' || kind == '{':
		return text
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], isSpace) == "" {
		return text[:start]
	}
	return text
}

// close consumes a tag's end at the current position, with what its sign and
// trim_blocks strip after it.
func (l *lexer) close(end string, sign byte) {
	l.pos += len(end)
	from := l.pos
	switch {
	case sign == '-':
		rest := l.src[l.pos:]
		l.pos += len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign != '+' && end != "}}":
		if strings.HasPrefix(l.src[l.pos:], "\n") {
			l.pos++
		}
	}
	l.lineStart = l.pos > from && l.src[l.pos-1] == '\n'
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.errorf("a comment is not closed")
	}
	var sign byte
	if i > 0 {
		sign = l.src[l.pos+i-1]
	}
	l.pos += i
	l.close("#}", sign)
	return nil
}

// rawTag reports whether a block tag that was opened before pos is {% name %} and
// returns the position after its name and blanks.
func (l *lexer) rawTag(pos int, name string) (int, bool) {
	rest := strings.TrimLeftFunc(l.src[pos:], isSpace)
	if !strings.HasPrefix(rest, name) {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest[len(name):], isSpace)
	at := len(l.src) - len(rest)
	ok := strings.HasPrefix(rest, "%}") || strings.HasPrefix(rest, "-%}") ||
		(name == "endraw" && strings.HasPrefix(rest, "+%}"))
	return at, ok
}

// raw reads text up to {% endraw %}. body is the position of the opening tag's end.
func (l *lexer) raw(body int) error {
	l.pos = body
	if l.src[l.pos] == '-' {
		l.pos++
		l.close("%}", '-')
	} else {
		l.close("%}", '+') // trim_blocks leaves the newline after {% raw %}
	}
	for at := l.pos; ; at += 2 {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			return l.errorf("a raw block is not closed")
		}
		at += i
		inner, sign := at+2, byte(0)
		if inner < len(l.src) && (l.src[inner] == '-' || l.src[inner] == '+') {
			sign = l.src[inner]
			inner++
		}
		end, ok := l.rawTag(inner, "endraw")
		if !ok {
			continue
		}
		if text := l.stripBefore(l.src[l.pos:at], '%', sign); text != "" {
			l.emit(tokData, text)
		}
		sign, l.pos = 0, end
		if c := l.src[end]; c == '-' || c == '+' {
			sign = c
			l.pos++
		}
		l.close("%}", sign)
		return nil
	}
}

// isSpace is Python's str.isspace for one character.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || (c >= 0x1c && c <= 0x1f)
}

// inside reads the tokens of a tag up to its end.
func (l *lexer) inside(end string, kind tokenKind) error {
	var open []byte // closing brackets that are due
	for {
		rest := strings.TrimLeftFunc(l.src[l.pos:], isSpace)
		l.pos = len(l.src) - len(rest)
		if rest == "" {
			return l.errorf("a tag is not closed: '%s' is missing", end)
		}
		if len(open) == 0 && l.atEnd(end, kind) {
			return nil
		}
		op := ""
		switch c := rest[0]; {
		case c == '\'' || c == '"':
			if err := l.str(); err != nil {
				return err
			}
		case isDigit(c):
			l.number()
		case c == '_' || c >= utf8.RuneSelf || unicode.IsLetter(rune(c)):
			if err := l.name(); err != nil {
				return err
			}
		default:
			op = operator(rest)
			if op == "" {
				return l.errorf("unexpected character %q", c)
			}
			l.emit(tokOp, op)
			l.pos += len(op)
		}
		var err error
		if open, err = l.balance(open, op); err != nil {
			return err
		}
	}
}

// atEnd consumes the end of a tag if it is next.
func (l *lexer) atEnd(end string, kind tokenKind) bool {
	rest, sign := l.src[l.pos:], byte(0)
	if rest[0] == '-' || (rest[0] == '+' && end == "%}") {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, end) {
		return false
	}
	l.emit(kind, end)
	if sign != 0 {
		l.pos++
	}
	l.close(end, sign)
	return true
}

// balance keeps track of brackets, inside of which "}}" does not end a tag.
func (l *lexer) balance(open []byte, op string) ([]byte, error) {
	switch op {
	case "(":
		return append(open, ')'), nil
	case "[":
		return append(open, ']'), nil
	case "{":
		return append(open, '}'), nil
	case ")", "]", "}":
		if len(open) == 0 || open[len(open)-1] != op[0] {
			return nil, l.errorf("unexpected '%s'", op)
		}
		return open[:len(open)-1], nil
	}
	return open, nil
}

// operator returns the operator that s starts with, "" if none.
func operator(s string) string {
	if len(s) >= 2 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}<>=.:|,", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}
