package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// name reads an identifier.
func (l *lexer) name() error {
	n := 0
	for i, c := range l.src[l.pos:] {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c) && !unicode.Is(unicode.Mn, c)) {
			break
		}
		n = i + utf8.RuneLen(c)
	}
	if n == 0 {
		c, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		return l.errorf("unexpected character %q", c)
	}
	l.emit(tokName, l.src[l.pos:l.pos+n])
	l.pos += n
	return nil
}

// digits returns the length of a run of digits with single underscores inside.
func digits(s string, isDigit func(byte) bool) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || (s[n] == '_' && n > 0 && n+1 < len(s) && isDigit(s[n+1]))) {
		n++
	}
	return n
}

// number reads an integer or a float.
func (l *lexer) number() {
	s := l.src[l.pos:]
	n, kind := l.prefixed(s), tokInt
	if n == 0 {
		n = digits(s, isDigit)
		afterDot := l.pos > 0 && l.src[l.pos-1] == '.' // a.0.1 is two items
		if frac := digits(strings.TrimPrefix(s[n:], "."), isDigit); !afterDot && frac > 0 && s[n] == '.' {
			n += 1 + frac
			kind = tokFloat
		}
		if e := exponent(s[n:]); !afterDot && e > 0 {
			n += e
			kind = tokFloat
		}
	}
	l.emit(kind, strings.ReplaceAll(s[:n], "_", ""))
	l.pos += n
}

// prefixed returns the length of a 0x, 0o or 0b integer, 0 if s is none.
func (l *lexer) prefixed(s string) int {
	if len(s) < 3 || s[0] != '0' {
		return 0
	}
	base := 0
	switch s[1] | 0x20 {
	case 'x':
		base = 16
	case 'o':
		base = 8
	case 'b':
		base = 2
	default:
		return 0
	}
	n := digits(s[2:], func(c byte) bool {
		_, err := strconv.ParseUint(string(c), base, 8)
		return err == nil
	})
	if n == 0 {
		return 0
	}
	return 2 + n
}

// exponent returns the length of an exponent such as e+10, 0 if s has none.
func exponent(s string) int {
	if s == "" || s[0]|0x20 != 'e' {
		return 0
	}
	n := 1
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	d := digits(s[n:], isDigit)
	if d == 0 {
		return 0
	}
	return n + d
}

// str reads a string literal.
func (l *lexer) str() error {
	s := l.src[l.pos:]
	end := 1
	for end < len(s) && s[end] != s[0] {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return l.errorf("a string is not closed")
	}
	text, ok := unescape(s[1:end])
	if !ok {
		return l.errorf("a string has a malformed escape: %s", s[:end+1])
	}
	l.emit(tokString, text)
	l.pos += end + 1
	return nil
}

var simpleEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"",
	'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': "",
}

// unescape decodes a literal as Python's unicode-escape codec does.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "\\") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		if text, ok := simpleEscapes[c]; ok {
			b.WriteString(text)
			continue
		}
		width, base := 0, 16
		switch {
		case c == 'x':
			width = 2
		case c == 'u':
			width = 4
		case c == 'U':
			width = 8
		case c >= '0' && c <= '7':
			i--
			base = 8
			for width < 3 && i+width < len(s) && s[i+width] >= '0' && s[i+width] <= '7' {
				width++
			}
		case c == 'N':
			return "", false
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		if i+width > len(s) {
			return "", false
		}
		v, err := strconv.ParseUint(s[i:i+width], base, 32)
		if err != nil || v > unicode.MaxRune {
			return "", false
		}
		b.WriteRune(rune(v))
		i += width
	}
	return b.String(), true
}
