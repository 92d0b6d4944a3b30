package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// clusterLen returns the bytes of the grapheme cluster with which s begins
// (Unicode Standard Annex 29), as far as clusters of less than maxCluster bytes
// need it: flags and emoji joined by U+200D, which are longer, come in parts.
func clusterLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\r' && len(s) > 1 && s[1] == '\n' {
		return 2
	}
	if breaksAlways(r) {
		return n
	}
	for n < len(s) {
		next, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case breaksAlways(next):
			return n
		case extends(next), isPrefix(r), hangulJoins(r, next):
		default:
			return n
		}
		r, n = next, n+size
	}
	return n
}

// breaksAlways reports whether a character is a cluster by itself.
func breaksAlways(r rune) bool {
	if r < 0x7F {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !extends(r) && !isPrefix(r)
}

// extends reports whether a character belongs to the one before it.
func extends(r rune) bool {
	const (
		joiner                = '\u200d'
		firstTone, lastTone   = '\U0001F3FB', '\U0001F3FF'
		thaiSaraAm, laoSaraAm = '\u0e33', '\u0eb3'
	)
	switch {
	case r < 0x300:
		return false
	case r == joiner, r >= firstTone && r <= lastTone, r == thaiSaraAm, r == laoSaraAm:
		return true
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
		return true
	}
	return unicode.Is(unicode.Mc, r) && !unicode.Is(standingMarks, r)
}

// standingMarks are the spacing marks that do not extend what is before them.
var standingMarks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x102B, 0x102C, 1}, {0x1038, 0x1038, 1}, {0x1062, 0x1064, 1}, {0x1067, 0x106D, 1}, {0x1083, 0x1083, 1}, {0x1087, 0x108C, 1},
		{0x108F, 0x108F, 1}, {0x109A, 0x109C, 1}, {0x1A61, 0x1A61, 1}, {0x1A63, 0x1A64, 1}, {0xAA7B, 0xAA7B, 1}, {0xAA7D, 0xAA7D, 1},
	},
	R32: []unicode.Range32{{0x11720, 0x11721, 1}},
}

// isPrefix reports whether a character belongs to the one after it.
func isPrefix(r rune) bool {
	return r >= 0x600 && (unicode.Is(unicode.Prepended_Concatenation_Mark, r) || unicode.Is(prefixLetters, r))
}

// prefixLetters are the letters that are written with the one after them.
var prefixLetters = &unicode.RangeTable{
	R16: []unicode.Range16{{0x0D4E, 0x0D4E, 1}},
	R32: []unicode.Range32{
		{0x111C2, 0x111C3, 1}, {0x1193F, 0x1193F, 1}, {0x11941, 0x11941, 1}, {0x11A3A, 0x11A3A, 1}, {0x11A84, 0x11A89, 1}, {0x11D46, 0x11D46, 1}, {0x11F02, 0x11F02, 1},
	},
}

// hangulJoins reports whether two characters are parts of one Hangul syllable.
func hangulJoins(a, b rune) bool {
	const base, last, perVowel = 0xAC00, 0xD7A3, 28
	lead := func(r rune) bool { return r >= 0x1100 && r <= 0x115F || r >= 0xA960 && r <= 0xA97C }
	vowel := func(r rune) bool { return r >= 0x1160 && r <= 0x11A7 || r >= 0xD7B0 && r <= 0xD7C6 }
	trail := func(r rune) bool { return r >= 0x11A8 && r <= 0x11FF || r >= 0xD7CB && r <= 0xD7FB }
	syllable := func(r rune) bool { return r >= base && r <= last }
	open := func(r rune) bool { return syllable(r) && (r-base)%perVowel == 0 } // without a trailing consonant
	switch {
	case lead(a):
		return lead(b) || vowel(b) || syllable(b)
	case vowel(a), open(a):
		return vowel(b) || trail(b)
	case trail(a), syllable(a):
		return trail(b)
	}
	return false
}
