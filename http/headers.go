package http

import (
	"bytes"
	"strings"
)

// soundHeaders reports whether header lines are as RFC 9112 has them: a name that is
// one token, its colon, and no line that goes on with the next. What other servers on
// the way may read differently is refused.
func soundHeaders(raw []byte) bool {
	for line := range bytes.SplitSeq(raw, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		name, _, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || bytes.ContainsFunc(name, isOutsideToken) {
			return false
		}
	}
	return true
}

func isOutsideToken(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
