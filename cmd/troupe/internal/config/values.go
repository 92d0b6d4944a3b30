package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// HumanInt is an integer that may carry a unit: 32k = 32000, 32K = 32768, and so
// on for m, g and t. Lower-case units allow decimals: 25.6k.
type HumanInt int64

var humanInt = regexp.MustCompile(`^(\d+(?:\.\d+)?)([kKmMgGtT])$`)

// UnmarshalText parses the value of a flag.
func (n *HumanInt) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	m := humanInt.FindStringSubmatch(s)
	if m == nil {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("expected an integer such as 32768, 32k or 32K but got %q", s)
		}
		*n = HumanInt(v)
		return nil
	}
	power := strings.Index("kmgt", strings.ToLower(m[2])) + 1
	if m[2] == strings.ToLower(m[2]) {
		return n.setDecimal(s, m[1], power)
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%q: units of 1024 take no decimals; did you mean %s%s?", s, m[1], strings.ToLower(m[2]))
	}
	for range power {
		if v > maxHumanInt/1024 {
			return fmt.Errorf("%q is too large", s)
		}
		v *= 1024
	}
	*n = HumanInt(v)
	return nil
}

func (n *HumanInt) setDecimal(s, digits string, power int) error {
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return err
	}
	for range power {
		v *= 1000
	}
	if v > maxHumanInt {
		return fmt.Errorf("%q is too large", s)
	}
	*n = HumanInt(v)
	return nil
}

const maxHumanInt = 1 << 60

// ContextLength is --max-model-len: a HumanInt, or -1 (also written auto) for
// the largest that fits.
type ContextLength HumanInt

// UnmarshalText parses the value of a flag.
func (c *ContextLength) UnmarshalText(text []byte) error {
	if strings.EqualFold(string(text), "auto") {
		*c = -1
		return nil
	}
	return (*HumanInt)(c).UnmarshalText(text)
}

// JSONObject is a flag whose value is a JSON object; nil if not given or null.
type JSONObject struct{ Raw json.RawMessage }

// IsEmpty reports whether the object is absent or {}.
func (o JSONObject) IsEmpty() bool {
	s := strings.Join(strings.Fields(string(o.Raw)), "")
	return s == "" || s == "{}"
}

// UnmarshalText parses the value of a flag.
func (o *JSONObject) UnmarshalText(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("expected a JSON object but got %q: %w", text, jsonError(err))
	}
	o.Raw = nil
	if members != nil {
		o.Raw = bytes.Clone(text)
	}
	return nil
}

// JSONList is a flag whose value is a JSON array of strings.
type JSONList struct{ Items []string }

// UnmarshalText parses the value of a flag.
func (l *JSONList) UnmarshalText(text []byte) error {
	if err := json.Unmarshal(text, &l.Items); err != nil {
		return fmt.Errorf(`expected a JSON list such as ["*"] but got %q`, text)
	}
	return nil
}

// UsageError is a mistake in the command line itself: exit status 2.
type UsageError struct {
	Err  error
	Help string // on the command, for people who may not know it; "" = none
}

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// asUsage wraps err as a UsageError unless it is one; nil stays nil.
func asUsage(err error) error {
	var u *UsageError
	if err == nil || errors.As(err, &u) {
		return err
	}
	return &UsageError{Err: err}
}
