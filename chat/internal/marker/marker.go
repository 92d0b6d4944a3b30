package marker

// Matcher looks for the first of a few fixed strings. No pattern may be a prefix of
// another one: the first that is complete wins.
type Matcher struct {
	patterns []string
	held     []byte    // a proper prefix of at least one pattern
	out      []byte    // what the last Step released, reused
	first    [256]bool // bytes with which a pattern begins
}

// New returns a matcher for the patterns, none of them empty.
func New(patterns ...string) *Matcher {
	m := &Matcher{patterns: patterns}
	for _, p := range patterns {
		m.first[p[0]] = true
	}
	return m
}

// Step takes the next byte. It returns the text which can be part of no pattern any
// more, valid until the next call, and the pattern that c completed, "" if none. The
// released text stands before the pattern.
func (m *Matcher) Step(c byte) (released []byte, hit string) {
	m.out = m.out[:0]
	if len(m.held) == 0 && !m.first[c] {
		m.out = append(m.out, c)
		return m.out, ""
	}
	m.held = append(m.held, c)
	for len(m.held) > 0 {
		hit, partial := m.match()
		if hit != "" {
			m.held = m.held[:0]
			return m.out, hit
		}
		if partial {
			break
		}
		m.out = append(m.out, m.held[0])
		m.held = m.held[:copy(m.held, m.held[1:])]
	}
	return m.out, ""
}

// match compares the held bytes with every pattern.
func (m *Matcher) match() (hit string, partial bool) {
	for _, p := range m.patterns {
		if len(m.held) <= len(p) && p[:len(m.held)] == string(m.held) {
			if len(m.held) == len(p) {
				return p, false
			}
			partial = true
		}
	}
	return "", partial
}

// Flush gives up on what is held and returns it, valid until the next call.
func (m *Matcher) Flush() []byte {
	m.out = append(m.out[:0], m.held...)
	m.held = m.held[:0]
	return m.out
}

// Held is the number of bytes held back.
func (m *Matcher) Held() int { return len(m.held) }

// WholeRunes returns how many bytes of b can go out without cutting a character that
// the next bytes may complete. Bytes that are no UTF-8 at all count as whole.
func WholeRunes(b []byte) int {
	for n := 1; n < 4 && n <= len(b); n++ {
		c := b[len(b)-n]
		switch {
		case c < 0x80:
			return len(b)
		case c < 0xC0: // continuation: its first byte stands further left
		case c >= 0xF0 && n < 4, c >= 0xE0 && n < 3, n < 2:
			return len(b) - n
		default:
			return len(b)
		}
	}
	return len(b)
}
