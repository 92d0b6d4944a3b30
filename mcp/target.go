package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// Target is a server as it was configured.
type Target struct {
	Label string // "" = the name that the server gives itself
	URL   string // of its endpoint; may hold secrets
}

const (
	maxLabel    = 64
	defaultPath = "/mcp"
)

// ParseTarget reads [LABEL=]URL, where HOST:PORT stands for http://HOST:PORT/mcp. Its
// errors do not repeat the address, which may hold secrets.
func ParseTarget(s string) (Target, error) {
	var t Target
	if label, rest, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(label, ":/?") {
		if err := checkLabel(label); err != nil {
			return t, err
		}
		t.Label, s = label, rest
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
		if !strings.Contains(s[len("http://"):], "/") {
			s += defaultPath
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return t, errors.New("the address is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return t, fmt.Errorf("the scheme must be http or https, got %q", u.Scheme)
	case u.Hostname() == "":
		return t, errors.New("the address has no host")
	}
	u.Fragment = ""
	t.URL = u.String()
	return t, nil
}

func checkLabel(label string) error {
	switch {
	case label == "" || len(label) > maxLabel:
		return fmt.Errorf("a label must have 1 to %d characters, got %d", maxLabel, len(label))
	case strings.ContainsFunc(label, infer.IsOutsideNames):
		return fmt.Errorf("a label may have letters, digits, _ and - only, got %q", label)
	}
	return nil
}

// shown names a target without its secrets.
func (t Target) shown() string {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return t.Label
	}
	if t.Label == "" {
		return u.Host
	}
	return t.Label + " at " + u.Host
}
