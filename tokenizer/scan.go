package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// The classes of split patterns. A character may be in several.
const (
	classL     = 1 << iota // \p{L}
	classN                 // \p{N}
	classSpace             // \s
	classUpper             // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
	classLower             // \p{Ll}\p{Lm}\p{Lo}\p{M}
	classEOL               // \r \n
)

// classes holds the classes of every code point. Looking a character up in the
// tables of package unicode takes most of the time of splitting; this is one load.
type classes [unicode.MaxRune + 1]uint8

// newClasses returns the table, which is built once.
var newClasses = sync.OnceValue(func() *classes {
	c := new(classes)
	c.set(classL, unicode.L)
	c.set(classN, unicode.N)
	c.set(classSpace, unicode.White_Space)
	c.set(classUpper, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
	c.set(classLower, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
	c['\r'] |= classEOL
	c['\n'] |= classEOL
	return c
})

func (c *classes) set(class uint8, tables ...*unicode.RangeTable) {
	for _, t := range tables {
		for _, r := range t.R16 {
			for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
				c[x] |= class
			}
		}
		for _, r := range t.R32 {
			for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
				c[x] |= class
			}
		}
	}
}

// at returns the classes and the length of the character at s[i:]; 0, 0 at the
// end. A byte that is not UTF-8 has no class.
func (c *classes) at(s string, i int) (class uint8, n int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return c[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return c[r], n
}

// run returns the end of the longest run of characters from i on that are in
// one of the given classes.
func (c *classes) run(s string, i int, class uint8) int {
	for {
		k, n := c.at(s, i)
		if k&class == 0 {
			return i
		}
		i += n
	}
}

// runOutside returns the end of the longest run of characters from i on that
// are in none of the given classes.
func (c *classes) runOutside(s string, i int, class uint8) int {
	for {
		k, n := c.at(s, i)
		if k&class != 0 || n == 0 {
			return i
		}
		i += n
	}
}

// digits returns the end of at most most characters \p{N} from i on.
func (c *classes) digits(s string, i, most int) int {
	for range most {
		k, n := c.at(s, i)
		if k&classN == 0 {
			break
		}
		i += n
	}
	return i
}

// contraction returns the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at s[i:], 0 if
// there is none. Case folding makes U+017F (long s) an s.
func contraction(s string, i int) int {
	if len(s) < i+2 || s[i] != '\'' {
		return 0
	}
	switch a := s[i+1] | 0x20; a {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if len(s) < i+3 {
			return 0
		}
		if b := s[i+2] | 0x20; b == 'e' && a != 'l' || b == 'l' && a == 'l' {
			return 3
		}
	}
	if len(s) >= i+3 && s[i+1:i+3] == "ſ" {
		return 3
	}
	return 0
}

// space returns the length of `\s*[\r\n]+|\s+(?!\S)|\s+` at the beginning of s,
// which is white space; without newlines = true, of `\s+(?!\S)|\s+`.
func (c *classes) space(s string, newlines bool) int {
	end, last, afterEOL := 0, 0, 0
	for {
		k, n := c.at(s, end)
		if k&classSpace == 0 {
			break
		}
		last = end
		end += n
		if k&classEOL != 0 {
			afterEOL = end
		}
	}
	switch {
	case newlines && afterEOL > 0:
		return afterEOL
	case end == len(s) || last == 0:
		return end
	}
	return last // the last blank goes with what follows
}

// gpt2Scanner is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
type gpt2Scanner struct{ classes *classes }

func (sc gpt2Scanner) next(s string) int {
	if s[0] == '\'' && len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		if n := contraction(s, 0); n > 0 && (n == 2 || s[2] >= 'a') {
			return n
		}
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	switch k, n := sc.classes.at(s, i); {
	case k&classL != 0:
		return sc.classes.run(s, i, classL)
	case k&classN != 0:
		return sc.classes.run(s, i, classN)
	case k&classSpace == 0 && n > 0:
		return sc.classes.runOutside(s, i, classSpace|classL|classN)
	}
	return sc.classes.space(s, false)
}

// cl100kScanner is
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,k}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// with k = maxDigits.
type cl100kScanner struct {
	classes   *classes
	maxDigits int
}

func (sc cl100kScanner) next(s string) int {
	if n := contraction(s, 0); n > 0 {
		return n
	}
	k, n := sc.classes.at(s, 0)
	switch {
	case k&classL != 0:
		return sc.classes.run(s, n, classL)
	case k&classN != 0:
		return sc.classes.digits(s, 0, sc.maxDigits)
	case k&classEOL == 0:
		if end := sc.classes.run(s, n, classL); end > n {
			return end
		}
	}
	return sc.classes.other(s, 0)
}

// other returns the length of ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
// at the beginning of s, which is no letter and no number. If extra is not 0,
// that byte belongs to the tail [\r\n]* as well.
func (c *classes) other(s string, extra byte) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	end := c.runOutside(s, i, classSpace|classL|classN)
	if end == i {
		return c.space(s, true)
	}
	for end < len(s) && (s[end] == '\r' || s[end] == '\n' || extra != 0 && s[end] == extra) {
		end++
	}
	return end
}

// o200kScanner is, with P = [^\r\n\p{L}\p{N}]?, U and W the classes upper and
// lower and C = (?i:'s|'t|'re|'ve|'m|'ll|'d)?,
// PU*W+C|PU+W*C|\p{N}{1,k}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// with k = maxDigits, and without C unless contractions.
type o200kScanner struct {
	classes      *classes
	maxDigits    int
	contractions bool
}

func (sc o200kScanner) next(s string) int {
	k, n := sc.classes.at(s, 0)
	if k&classN != 0 {
		return sc.classes.digits(s, 0, sc.maxDigits)
	}
	end := 0
	if k&(classL|classEOL) == 0 {
		end = sc.lowerEnd(s, n)
	}
	if end == 0 {
		end = sc.lowerEnd(s, 0)
	}
	if end == 0 && k&(classL|classEOL) == 0 {
		end = sc.upperEnd(s, n)
	}
	if end == 0 {
		end = sc.upperEnd(s, 0)
	}
	if end == 0 {
		return sc.classes.other(s, '/')
	}
	if sc.contractions {
		end += contraction(s, end)
	}
	return end
}

// lowerEnd returns the end of U*W+ at s[i:], 0 if it does not match.
func (sc o200kScanner) lowerEnd(s string, i int) int {
	end, both := i, 0 // both: after the last character that is in U and W
	for {
		k, n := sc.classes.at(s, end)
		if k&classUpper == 0 {
			break
		}
		end += n
		if k&classLower != 0 {
			both = end
		}
	}
	if after := sc.classes.run(s, end, classLower); after > end {
		return after
	}
	return both // U* gives back characters until W+ has one
}

// upperEnd returns the end of U+W* at s[i:], where U*W+ does not match: 0 if it
// does not match either.
func (sc o200kScanner) upperEnd(s string, i int) int {
	if end := sc.classes.run(s, i, classUpper); end > i {
		return end
	}
	return 0
}
