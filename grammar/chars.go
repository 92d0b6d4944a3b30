package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"
)

// runes is a sorted set of code points as pairs lo, hi, both included.
type runes []rune

// minus returns s without the code points of t.
func (s runes) minus(t runes) runes {
	var out runes
	for i := 0; i < len(s); i += 2 {
		lo, hi := s[i], s[i+1]
		for j := 0; j < len(t) && lo <= hi; j += 2 {
			if t[j+1] < lo || t[j] > hi {
				continue
			}
			if t[j] > lo {
				out = append(out, lo, t[j]-1)
			}
			lo = t[j+1] + 1
		}
		if lo <= hi {
			out = append(out, lo, hi)
		}
	}
	return out
}

func (s runes) has(r rune) bool {
	i := sort.Search(len(s)/2, func(i int) bool { return s[2*i+1] >= r })
	return 2*i < len(s) && s[2*i] <= r
}

// key is s as a key of a map.
func (s runes) key() string {
	b := make([]byte, 0, 4*len(s))
	for _, c := range s {
		b = binary.LittleEndian.AppendUint32(b, uint32(c))
	}
	return string(b)
}

var (
	anyRune    = runes{0, utf8.MaxRune}
	surrogates = runes{0xd800, 0xdfff}
	// unsafeRunes can't stand in a JSON string as they are.
	unsafeRunes = runes{0, 0x1f, '"', '"', '\\', '\\'}
)

// utf8Of matches the UTF-8 of one code point of s.
func utf8Of(s runes) *expr {
	var alts []*expr
	for i := range len(s) / 2 {
		part := runes(s[2*i : 2*i+2]).minus(surrogates)
		for j := 0; j < len(part); j += 2 {
			alts = utf8Range(alts, part[j], part[j+1])
		}
	}
	return mergeSets(alts)
}

// utf8Range appends expressions for lo to hi: one for each stretch in which the
// bytes of the encoding vary independently.
func utf8Range(out []*expr, lo, hi rune) []*expr {
	for n := 1; n < utf8.UTFMax; n++ {
		if last := []rune{0, 0x7f, 0x7ff, 0xffff}[n]; lo <= last && hi > last {
			return utf8Range(utf8Range(out, lo, last), last+1, hi)
		}
	}
	if hi < utf8.RuneSelf {
		return append(out, bytesOf(byte(lo), byte(hi)))
	}
	for shift := 6; shift <= 18; shift += 6 {
		low := rune(1)<<shift - 1 // the bits of the last shift/6 bytes
		if lo&^low == hi&^low {
			break
		}
		if lo&low != 0 {
			return utf8Range(utf8Range(out, lo, lo|low), lo|low+1, hi)
		}
		if hi&low != low {
			return utf8Range(utf8Range(out, lo, hi&^low-1), hi&^low, hi)
		}
	}
	var a, b [utf8.UTFMax]byte
	n := utf8.EncodeRune(a[:], lo)
	utf8.EncodeRune(b[:], hi)
	parts := make([]*expr, n)
	for i := range n {
		parts[i] = bytesOf(a[i], b[i])
	}
	return append(out, cat(parts...))
}

// mergeSets joins the alternatives that are one byte.
func mergeSets(alts []*expr) *expr {
	one := &expr{kind: kindSet}
	out := []*expr{one}
	for _, a := range alts {
		if a.kind == kindSet {
			for i := range one.set {
				one.set[i] |= a.set[i]
			}
		} else {
			out = append(out, a)
		}
	}
	if one.set == (byteSet{}) {
		out = out[1:]
	}
	return alt(out...)
}

// jsonCharOf matches one code point of s as it is written in a JSON string: as
// it is where JSON allows that, else by its shortest escape. The escapes that
// encoding/json writes without need are matched too.
func jsonCharOf(s runes) *expr {
	var escapes []string
	for _, r := range withEscapes {
		if s.has(r) {
			escapes = appendEscapes(escapes, r)
		}
	}
	return alt(utf8Of(s.minus(unsafeRunes)), literals(escapes))
}

// withEscapes are the characters that encoding/json escapes.
var withEscapes = func() (out []rune) {
	for r := range rune(utf8.RuneSelf) {
		if len(appendEscapes(nil, r)) > 0 {
			out = append(out, r)
		}
	}
	return append(out, 0x2028, 0x2029)
}()

var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func appendEscapes(out []string, r rune) []string {
	if s := shortEscapes[r]; s != "" {
		return append(out, s)
	}
	if r < 0x20 || slices.Contains([]rune{'<', '>', '&', 0x2028, 0x2029}, r) {
		out = append(out, fmt.Sprintf(`\u%04x`, r))
	}
	return out
}

// jsonText matches s as it is written between the quotes of a JSON string.
func jsonText(s string) *expr {
	var parts []*expr
	plain := 0 // where what is not escaped begins
	for i, r := range s {
		if r >= utf8.RuneSelf && r != 0x2028 && r != 0x2029 || r < utf8.RuneSelf && escapable[r] == nil {
			continue
		}
		parts = append(parts, lit(s[plain:i]), escapedChar(r))
		plain = i + utf8.RuneLen(r)
	}
	return cat(append(parts, lit(s[plain:]))...)
}

// escapable has the characters below 0x80 that are written in another way, or in
// one more.
var escapable = func() (out [utf8.RuneSelf]*expr) {
	for r := range rune(utf8.RuneSelf) {
		if unsafeRunes.has(r) || len(appendEscapes(nil, r)) > 0 {
			out[r] = jsonCharOf(runes{r, r})
		}
	}
	return out
}()

func escapedChar(r rune) *expr {
	if r < utf8.RuneSelf {
		return escapable[r]
	}
	return jsonCharOf(runes{r, r})
}

// freeChar matches one character of a JSON string with every escape that there
// is; surrogates only in pairs.
var freeChar = jsonChar()

func jsonChar() *expr {
	hex := &expr{kind: kindSet}
	hex.set.add('0', '9')
	hex.set.add('a', 'f')
	hex.set.add('A', 'F')
	first := &expr{kind: kindSet, set: hex.set}
	first.set[1] &^= 1<<('d'-64) | 1<<('D'-64)
	low, high, tail := &expr{kind: kindSet}, &expr{kind: kindSet}, &expr{kind: kindSet}
	low.set.add('0', '7')
	high.set.add('8', '9')
	high.set.add('a', 'b')
	high.set.add('A', 'B')
	tail.set.add('c', 'f')
	tail.set.add('C', 'F')
	d := alt(lit("d"), lit("D"))
	short := &expr{kind: kindSet}
	for _, c := range []byte(`"\/bfnrt`) {
		short.set.add(c, c)
	}
	return alt(
		utf8Of(anyRune.minus(unsafeRunes)),
		cat(lit(`\`), alt(short, cat(lit("u"), alt(
			cat(first, hex, hex, hex),
			cat(d, low, hex, hex),
			cat(d, high, hex, hex, lit(`\u`), d, tail, hex, hex),
		)))),
	)
}
