package toolcall

// verdict is what a reader says of the byte it got.
type verdict uint8

const (
	more verdict = iota // taken, and more must come
	done                // taken, and the last one
	over                // not taken: the byte before was the last one
	bad                 // not taken: it can't stand here
)

// scanState is what a [scanner] expects.
type scanState uint8

const (
	scanValue      scanState = iota
	scanValueOrEnd           // behind [
	scanKeyOrEnd             // behind {
	scanKey                  // behind , in an object
	scanColon
	scanAfter // behind a value in a container
	scanString
	scanEscape
	scanHex
	scanLiteral
	scanMinus // numbers from here on
	scanZero
	scanInt
	scanDot
	scanFraction
	scanE
	scanESign
	scanExponent
)

// scanner checks one JSON value (RFC 8259) byte by byte. The only thing it lets pass
// is a control character within a string, which [value] escapes.
type scanner struct {
	state scanState
	stack []byte // the open containers, { or [
	key   bool   // the string being read is a key
	rest  string // scanLiteral: what must follow
	hex   int    // scanHex: digits to come
}

// inString says that the next byte belongs to a string.
func (s *scanner) inString() bool { return s.state >= scanString && s.state <= scanHex }

func (s *scanner) step(c byte) verdict {
	switch {
	case s.state >= scanMinus:
		return s.number(c)
	case s.state == scanLiteral:
		return s.literal(c)
	case s.inString():
		return s.stringByte(c)
	case isBlank(c):
		return more
	}
	return s.token(c)
}

// token takes a byte that is no white space between values.
func (s *scanner) token(c byte) verdict {
	switch s.state {
	case scanColon:
		if c != ':' {
			return bad
		}
		s.state = scanValue
		return more
	case scanAfter:
		return s.after(c)
	case scanKey, scanKeyOrEnd:
		if c == '"' {
			s.state, s.key = scanString, true
			return more
		}
		if c == '}' && s.state == scanKeyOrEnd {
			return s.pop()
		}
		return bad
	case scanValueOrEnd:
		if c == ']' {
			return s.pop()
		}
	}
	return s.value(c)
}

// value takes the first byte of a value.
func (s *scanner) value(c byte) verdict {
	switch {
	case c == '{', c == '[':
		if len(s.stack) == maxDepth {
			return bad
		}
		s.stack = append(s.stack, c)
		s.state = scanKeyOrEnd
		if c == '[' {
			s.state = scanValueOrEnd
		}
	case c == '"':
		s.state, s.key = scanString, false
	case c == '-':
		s.state = scanMinus
	case c == '0':
		s.state = scanZero
	case c >= '1' && c <= '9':
		s.state = scanInt
	case c == 't':
		s.state, s.rest = scanLiteral, "rue"
	case c == 'f':
		s.state, s.rest = scanLiteral, "alse"
	case c == 'n':
		s.state, s.rest = scanLiteral, "ull"
	default:
		return bad
	}
	return more
}

// after takes the byte behind a value in a container.
func (s *scanner) after(c byte) verdict {
	top := s.stack[len(s.stack)-1]
	switch {
	case c == ',' && top == '{':
		s.state = scanKey
	case c == ',':
		s.state = scanValue
	case c == '}' && top == '{', c == ']' && top == '[':
		return s.pop()
	default:
		return bad
	}
	return more
}

func (s *scanner) pop() verdict {
	s.stack = s.stack[:len(s.stack)-1]
	return s.ended()
}

// ended says that a value ended with the byte just taken.
func (s *scanner) ended() verdict {
	if len(s.stack) == 0 {
		return done
	}
	s.state = scanAfter
	return more
}

func (s *scanner) stringByte(c byte) verdict {
	switch {
	case s.state == scanHex:
		if !isHex(c) {
			return bad
		}
		if s.hex--; s.hex == 0 {
			s.state = scanString
		}
	case s.state == scanEscape && c == 'u':
		s.state, s.hex = scanHex, 4
	case s.state == scanEscape:
		if !isEscape(c) {
			return bad
		}
		s.state = scanString
	case c == '\\':
		s.state = scanEscape
	case c == '"' && s.key:
		s.state = scanColon
	case c == '"':
		return s.ended()
	}
	return more
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

func (s *scanner) literal(c byte) verdict {
	if c != s.rest[0] {
		return bad
	}
	if s.rest = s.rest[1:]; s.rest == "" {
		return s.ended()
	}
	return more
}

// number takes a byte of a number, or the first one behind it.
func (s *scanner) number(c byte) verdict {
	if next, ok := afterDigit(s.state, c); ok {
		s.state = next
		return more
	}
	switch s.state {
	case scanMinus, scanDot, scanE, scanESign:
		return bad
	}
	if s.ended() == done {
		return over
	}
	return s.step(c)
}

// afterDigit is the grammar of numbers: the state behind c, false if c ends the number.
func afterDigit(state scanState, c byte) (scanState, bool) {
	digit := c >= '0' && c <= '9'
	switch state {
	case scanMinus:
		if c == '0' {
			return scanZero, true
		}
		return scanInt, digit
	case scanInt, scanZero:
		switch {
		case digit:
			return scanInt, state == scanInt
		case c == '.':
			return scanDot, true
		}
		return scanE, c == 'e' || c == 'E'
	case scanDot, scanFraction:
		if digit {
			return scanFraction, true
		}
		return scanE, state == scanFraction && (c == 'e' || c == 'E')
	case scanE:
		if c == '+' || c == '-' {
			return scanESign, true
		}
	}
	return scanExponent, digit
}

// value passes a JSON value on as it is. Control characters in strings, which models
// write and JSON forbids, go out escaped.
//
// A value that turns out to be no JSON is passed on all the same, to the place where its
// brackets are closed: the client sees what the model wrote.
type value struct {
	put func(byte)

	scan scanner
	// loose: it is no JSON; from here on only quotes and brackets count.
	loose     bool
	depth     int
	str, skip bool // within a string; the next byte is escaped
}

// step takes the next byte. It never returns bad once the value is loose.
func (v *value) step(c byte) verdict {
	if v.loose {
		return v.loosely(c)
	}
	inString := v.scan.inString()
	r := v.scan.step(c)
	if r == more || r == done {
		v.pass(c, inString)
	}
	return r
}

// loosen makes step take the byte that it returned bad for.
func (v *value) loosen() {
	v.loose = true
	v.depth = len(v.scan.stack)
	v.str = v.scan.inString()
}

func (v *value) loosely(c byte) verdict {
	switch {
	case v.skip:
		v.skip = false
	case v.str && c == '\\':
		v.skip = true
	case c == '"':
		v.str = !v.str
	case v.str:
	case c == '{', c == '[':
		v.depth++
	case c == '}', c == ']':
		if v.depth == 0 {
			return over
		}
		v.depth--
		if v.depth == 0 {
			v.put(c)
			return done
		}
	case c == ',' && v.depth == 0:
		return over
	}
	v.pass(c, v.str)
	return more
}

func (v *value) pass(c byte, inString bool) {
	if inString && c < ' ' {
		for _, e := range controlEscape(c) {
			v.put(e)
		}
		return
	}
	v.put(c)
}

// controlEscape writes a control character as JSON wants it.
func controlEscape(c byte) []byte {
	switch c {
	case '\n':
		return []byte(`\n`)
	case '\r':
		return []byte(`\r`)
	case '\t':
		return []byte(`\t`)
	}
	const digits = "0123456789abcdef"
	return []byte{'\\', 'u', '0', '0', digits[c>>4], digits[c&15]}
}
