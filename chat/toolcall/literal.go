package toolcall

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

type literalState uint8

const (
	literalValue  literalState = iota // a value must come
	literalFirst                      // behind [ ( {
	literalNext                       // behind a comma in a container
	literalColon                      // behind a key
	literalAfter                      // behind a value in a container
	literalWord                       // in a number, a constant or a string's prefix
	literalQuote                      // behind a string's first quote
	literalQuotes                     // behind two: an empty string, or the start of a long one
	literalString
	literalEscape // behind a backslash
	literalDigits // in the digits of an escape
)

// literal turns a Python literal into JSON, byte by byte: strings of all kinds but b and f,
// numbers, True, False, None (and true, false, null), lists, tuples and dicts.
// (https://docs.python.org/3/reference/lexical_analysis.html#literals)
type literal struct {
	put func(byte)

	state literalState
	stack []byte // open containers
	comma bool   // a comma is due before the next element
	key   bool   // a dict's key is being read

	word   []byte
	quote  byte
	long   bool // the string has three quotes at each end
	raw    bool
	quotes int // quotes in a row that may end a long string
	out    quoter
	escape byte   // which escape
	digits []byte // of it
}

// step takes the next byte. over means that the literal ended before it.
func (l *literal) step(c byte) verdict {
	switch l.state {
	case literalWord:
		return l.wordByte(c)
	case literalQuote, literalQuotes:
		return l.quoteByte(c)
	case literalString:
		return l.stringByte(c)
	case literalEscape:
		return l.escapeByte(c)
	case literalDigits:
		return l.digitByte(c)
	}
	if isBlank(c) {
		return more
	}
	return l.token(c)
}

func (l *literal) write(text string) {
	for i := range len(text) {
		l.put(text[i])
	}
}

// token takes a byte between values.
func (l *literal) token(c byte) verdict {
	closes := (l.state == literalFirst || l.state == literalNext || l.state == literalAfter) && (c == ']' || c == ')' || c == '}')
	switch {
	case closes:
		return l.close(c)
	case l.state == literalAfter && c == ',':
		l.state, l.comma = literalNext, true
		return more
	case l.state == literalColon && c == ':':
		l.write(": ")
		l.state = literalValue
		return more
	case l.state == literalAfter, l.state == literalColon:
		return bad
	}
	return l.start(c)
}

// start takes the first byte of a value or key.
func (l *literal) start(c byte) verdict {
	element := l.state != literalValue
	if element && l.comma {
		l.write(", ")
	}
	l.comma = false
	l.key = element && l.stack[len(l.stack)-1] == '{'
	switch {
	case c == '\'' || c == '"':
		l.open(c)
	case l.key && (c == '[' || c == '(' || c == '{'):
		return bad
	case c == '[' || c == '(' || c == '{':
		if len(l.stack) == maxDepth {
			return bad
		}
		l.stack, l.state = append(l.stack, c), literalFirst
		if c == '(' {
			c = '['
		}
		l.put(c)
	case isIdentifier(c) || c == '-' || c == '+' || c == '.':
		l.word, l.state = append(l.word[:0], c), literalWord
	default:
		return bad
	}
	return more
}

func (l *literal) close(c byte) verdict {
	top := l.stack[len(l.stack)-1]
	if top == '(' && c == ')' || top == '[' && c == ']' {
		l.put(']')
	} else if top == '{' && c == '}' {
		l.put('}')
	} else {
		return bad
	}
	l.stack, l.comma = l.stack[:len(l.stack)-1], false
	return l.ended()
}

// ended says that a value or key ended with the byte just taken.
func (l *literal) ended() verdict {
	switch {
	case l.key:
		l.key, l.state = false, literalColon
	case len(l.stack) == 0:
		return done
	default:
		l.state = literalAfter
	}
	return more
}

// endedBefore says the same of the byte before c.
func (l *literal) endedBefore(c byte) verdict {
	if l.ended() == done {
		return over
	}
	return l.step(c)
}

func (l *literal) wordByte(c byte) verdict {
	last := l.word[len(l.word)-1]
	switch {
	case isIdentifier(c), c == '.', (c == '-' || c == '+') && (last == 'e' || last == 'E') && l.word[0] <= '9':
		if l.word = append(l.word, c); len(l.word) > maxName {
			return bad
		}
		return more
	case c == '\'' || c == '"':
		prefix := strings.ToLower(string(l.word))
		if prefix != "r" && prefix != "u" {
			return bad
		}
		l.open(c)
		l.raw = prefix == "r"
		return more
	}
	text, ok := scalar(string(l.word))
	if !ok {
		return bad
	}
	if l.key {
		text = `"` + text + `"`
	}
	l.write(text)
	return l.endedBefore(c)
}

// open takes a string's first quote.
func (l *literal) open(c byte) {
	l.state, l.quote, l.raw, l.long, l.quotes = literalQuote, c, false, false, 0
	l.out = quoter{put: l.put}
	l.put('"')
}

// quoteByte decides between a short string, an empty one and a long one.
func (l *literal) quoteByte(c byte) verdict {
	switch {
	case l.state == literalQuote && c == l.quote:
		l.state = literalQuotes
		return more
	case l.state == literalQuotes && c == l.quote:
		l.state, l.long = literalString, true
		return more
	case l.state == literalQuotes:
		l.put('"')
		return l.endedBefore(c)
	}
	l.state = literalString
	return l.stringByte(c)
}

func (l *literal) stringByte(c byte) verdict {
	if c == l.quote {
		l.quotes++
		if !l.long || l.quotes == 3 {
			l.out.flush()
			l.put('"')
			return l.ended()
		}
		return more
	}
	for ; l.quotes > 0; l.quotes-- {
		l.out.add(l.quote)
	}
	if c == '\\' {
		l.state = literalEscape
		return more
	}
	l.out.add(c)
	return more
}

func (l *literal) escapeByte(c byte) verdict {
	l.state = literalString
	if l.raw {
		l.out.add('\\', c)
		return more
	}
	switch i := strings.IndexByte(`\'"abfnrtv`, c); {
	case i >= 0:
		l.out.add("\\'\"\a\b\f\n\r\t\v"[i])
	case c == '\n': // the line goes on
	case c == 'x', c == 'u', c == 'U':
		l.state, l.escape, l.digits = literalDigits, c, l.digits[:0]
	case c >= '0' && c <= '7':
		l.state, l.escape, l.digits = literalDigits, 'o', append(l.digits[:0], c)
	default: // Python keeps the backslash
		l.out.add('\\', c)
	}
	return more
}

// digitByte reads the digits of \xhh, \uhhhh, \Uhhhhhhhh and \ooo.
func (l *literal) digitByte(c byte) verdict {
	size, base := map[byte]int{'x': 2, 'u': 4, 'U': 8, 'o': 3}[l.escape], 16
	if l.escape == 'o' {
		base = 8
	}
	if (base == 16 && isHex(c)) || (base == 8 && c >= '0' && c <= '7') {
		if l.digits = append(l.digits, c); len(l.digits) < size {
			return more
		}
		l.code(base)
		l.state = literalString
		return more
	}
	if base == 16 {
		return bad
	}
	l.code(base)
	l.state = literalString
	return l.stringByte(c)
}

// code writes the character of an escape. Halves of a surrogate pair stay escapes, so that
// a pair becomes its character for whoever decodes the JSON.
func (l *literal) code(base int) {
	n, _ := strconv.ParseUint(string(l.digits), base, 32) // eight hex digits at most
	if n >= 0xD800 && n < 0xE000 && len(l.digits) == 4 {
		l.out.flush()
		l.write(`\u` + string(l.digits))
		return
	}
	l.out.add(utf8.AppendRune(nil, rune(n))...)
}

// scalar turns a number or constant into JSON.
func scalar(word string) (string, bool) {
	switch word {
	case "True", "true":
		return "true", true
	case "False", "false":
		return "false", true
	case "None", "null":
		return "null", true
	}
	if strings.HasPrefix(word, "_") || strings.HasSuffix(word, "_") {
		return "", false
	}
	word = strings.TrimPrefix(strings.ReplaceAll(word, "_", ""), "+")
	digits := strings.TrimPrefix(word, "-")
	sign := word[:len(word)-len(digits)]
	if len(digits) > 1 && digits[0] == '0' && strings.IndexByte("xXoObB", digits[1]) >= 0 {
		n, ok := new(big.Int).SetString(word, 0)
		if !ok {
			return "", false
		}
		return n.String(), true
	}
	if first := strings.TrimPrefix(digits, "."); !startsWithDigit(first) {
		return "", false
	}
	whole, fraction, point := strings.Cut(digits, ".")
	if whole = strings.TrimLeft(whole, "0"); !startsWithDigit(whole) {
		whole = "0" + whole
	}
	if point && !startsWithDigit(fraction) {
		fraction = "0" + fraction
	}
	if point {
		whole += "." + fraction
	}
	return sign + whole, json.Valid([]byte(sign + whole))
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// python turns a whole Python literal into JSON.
func python(text string) (string, bool) {
	var out []byte
	l := literal{put: func(c byte) { out = append(out, c) }}
	for i := range len(text) {
		switch l.step(text[i]) {
		case done:
			return string(out), trimBlanks(text[i+1:]) == ""
		case over, bad:
			return "", false
		}
	}
	return "", false
}
