package ptxsim

import (
	"fmt"
	"strings"
)

// Bounds of a module.
const (
	maxSource    = 16 << 20 // bytes of PTX
	maxInsts     = 1 << 20  // instructions of a module
	maxRegisters = 1 << 14  // of a kernel, constants among them
	maxShared    = 232448   // bytes of shared memory of a block: 227 KiB
	maxDepth     = 16       // nested scopes
	maxVector    = 8        // operands within braces
)

// token is a word (a name, number, mnemonic or directive) or a sign.
type token struct {
	text string
	at   int // offset in the source
	line int
}

// lexer splits PTX into tokens, without comments.
type lexer struct {
	src  string
	at   int
	line int
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '$' || c == '%'
}

// next returns the next token; its text is empty at the end.
func (x *lexer) next() (token, error) {
	if err := x.skip(); err != nil {
		return token{}, err
	}
	t := token{at: x.at, line: x.line}
	if x.at == len(x.src) {
		return t, nil
	}
	for x.at < len(x.src) && isWord(x.src[x.at]) {
		x.at++
	}
	if x.at == t.at {
		switch c := x.src[x.at]; c {
		case '"':
			n := strings.IndexAny(x.src[x.at+1:], "\"\n")
			if n < 0 || x.src[x.at+1+n] == '\n' {
				return token{}, &ParseError{Line: x.line, Reason: "a string has no end"}
			}
			x.at += n + 2
		case '{', '}', '[', ']', '(', ')', ',', ';', ':', '@', '!', '+', '-', '<', '>', '|', '=':
			x.at++
		default:
			return token{}, &ParseError{Line: x.line, Reason: fmt.Sprintf("unexpected character %q", c)}
		}
	}
	t.text = x.src[t.at:x.at]
	return t, nil
}

// skip passes over blanks and comments.
func (x *lexer) skip() error {
	for x.at < len(x.src) {
		rest := x.src[x.at:]
		switch c := rest[0]; {
		case c == '\n':
			x.line++
			x.at++
		case c == ' ' || c == '\t' || c == '\r':
			x.at++
		case len(rest) > 1 && rest[:2] == "//":
			for x.at < len(x.src) && x.src[x.at] != '\n' {
				x.at++
			}
		case len(rest) > 1 && rest[:2] == "/*":
			if err := x.skipBlock(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (x *lexer) skipBlock() error {
	start := x.line
	for x.at += 2; x.at+1 < len(x.src); x.at++ {
		if x.src[x.at] == '\n' {
			x.line++
		}
		if x.src[x.at] == '*' && x.src[x.at+1] == '/' {
			x.at += 2
			return nil
		}
	}
	return &ParseError{Line: start, Reason: "a comment has no end"}
}
