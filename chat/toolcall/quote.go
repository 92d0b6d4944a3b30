package toolcall

import "unicode/utf8"

// quoter writes bytes as the inside of a JSON string. Bytes that are no UTF-8 become
// U+FFFD, as a JSON string can't hold them.
type quoter struct {
	put  func(byte)
	tail []byte // a character that is not whole yet
}

func (q *quoter) add(text ...byte) {
	for _, c := range text {
		if c < utf8.RuneSelf && len(q.tail) == 0 {
			q.ascii(c)
			continue
		}
		q.tail = append(q.tail, c)
		for len(q.tail) > 0 && utf8.FullRune(q.tail) {
			q.rune()
		}
	}
}

func (q *quoter) rune() {
	r, n := utf8.DecodeRune(q.tail)
	if n == 1 && r < utf8.RuneSelf {
		q.ascii(q.tail[0])
	} else {
		for _, c := range utf8.AppendRune(nil, r) {
			q.put(c)
		}
	}
	q.tail = q.tail[:copy(q.tail, q.tail[n:])]
}

func (q *quoter) ascii(c byte) {
	switch {
	case c == '"', c == '\\':
		q.put('\\')
		q.put(c)
	case c < ' ':
		for _, e := range controlEscape(c) {
			q.put(e)
		}
	default:
		q.put(c)
	}
}

// flush writes what is left of a character that never became whole.
func (q *quoter) flush() {
	for len(q.tail) > 0 {
		q.rune()
	}
}

// quote writes a string as JSON.
func quote(s string) []byte {
	out := []byte{'"'}
	q := quoter{put: func(c byte) { out = append(out, c) }}
	q.add([]byte(s)...)
	q.flush()
	return append(out, '"')
}
