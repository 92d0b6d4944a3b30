package openai

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

const hexDigits = "0123456789abcdef"

// plain marks the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for b := range t {
		t[b] = b >= ' ' && b != '"' && b != '\\' && b < utf8.RuneSelf
	}
	return t
}()

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped is appendString without the quotes.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if plain[b] {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			size := runeSize(s, i)
			if size > 0 {
				i += size
				continue
			}
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			i++
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, b)
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// escapedSize returns the most bytes that appendEscaped makes of s.
func escapedSize(s string) int {
	size, perStray := len(s), 0
	if !utf8.ValidString(s) {
		perStray = len("\uFFFD") - 1
	}
	for i := range len(s) {
		switch {
		case plain[s[i]]:
		case s[i] < utf8.RuneSelf:
			size += len(`\u0000`) - 1
		default:
			size += perStray
		}
	}
	return size
}

// runeSize returns the length of the character at s[i], 0 if it is not valid.
func runeSize[T string | []byte](s T, i int) int {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s[i:min(len(s), i+utf8.UTFMax)])
	r, size := utf8.DecodeRune(b[:n])
	if r == utf8.RuneError && size == 1 {
		return 0
	}
	return size
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
}

// appendStringOrNull appends s as a JSON string, "" as null.
func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

func appendInt(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(i), 10) }

// appendFloat appends v without an exponent and with a decimal point, in the
// fewest digits that read back as v. bits is the size v had: 32 or 64.
func appendFloat(dst []byte, v float64, bits int) []byte {
	if v == 0 || math.IsNaN(v) {
		return append(dst, "0.0"...)
	}
	start := len(dst)
	if k := math.Round(v * micro); bits == 64 && math.Abs(k) < maxMicros && k/micro == v {
		return appendMicros(dst, int64(k))
	}
	dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

const (
	micro = 1e6
	// maxMicros bounds what appendMicros may write: decimals of up to 15 digits are
	// told apart by a float64, and so are the shortest that read back as theirs.
	maxMicros = 1e15
)

// appendMicros appends k millionths as appendFloat would, but many times faster:
// times in milliseconds are whole nanoseconds.
func appendMicros(dst []byte, k int64) []byte {
	if k < 0 {
		dst, k = append(dst, '-'), -k
	}
	dst = append(strconv.AppendInt(dst, k/micro, 10), '.')
	rest := k % micro
	for digit := int64(micro / 10); ; digit /= 10 {
		dst = append(dst, byte('0'+rest/digit))
		if rest %= digit; rest == 0 {
			return dst
		}
	}
}

// minLogprob stands for minus infinity, which JSON cannot write.
const minLogprob = -9999

func appendLogprob(dst []byte, lp float32) []byte {
	if lp < minLogprob || lp != lp {
		lp = minLogprob
	}
	return appendFloat(dst, float64(lp), 32)
}

// appendNullFloat appends v or null; what is not a finite number is null too.
func appendNullFloat(dst []byte, v infer.NullFloat) []byte {
	if !v.Valid || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
		return append(dst, "null"...)
	}
	return appendFloat(dst, v.Value, 64)
}

func appendTokenIDs(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// appendBytes appends the bytes of s as a list of numbers.
func appendBytes(dst []byte, s string) []byte {
	dst = append(dst, '[')
	for i := range len(s) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(s[i]), 10)
	}
	return append(dst, ']')
}

// appendStopReason appends what ended a choice: a string, a token id or null.
func appendStopReason(dst []byte, r infer.StopReason) []byte {
	switch {
	case r.ByToken:
		return strconv.AppendInt(dst, int64(r.TokenID), 10)
	case r.Text != "":
		return appendString(dst, r.Text)
	}
	return append(dst, "null"...)
}

func appendFinishReason(dst []byte, r infer.FinishReason) []byte {
	if r == infer.FinishNone {
		return append(dst, "null"...)
	}
	return append(append(append(dst, '"'), r.String()...), '"')
}
