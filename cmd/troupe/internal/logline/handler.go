package logline

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// LevelCritical is above everything that is logged.
const LevelCritical = slog.LevelError + 4

// ParseLevel reads the words of vLLM's flags and environment in any case:
// trace, debug, info, warning, error, critical.
func ParseLevel(s string) slog.Level {
	switch strings.ToLower(s) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "critical":
		return LevelCritical
	}
	return slog.LevelInfo
}

// New returns a logger that writes to w what is at least of a level.
func New(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(&handler{out: &output{w: w}, level: level})
}

// handler implements slog.Handler.
type handler struct {
	out    *output
	level  slog.Level
	attrs  string // of With, already written
	prefix string // of WithGroup
}

// output is shared by the handlers derived from one.
type output struct {
	mu  sync.Mutex // held while a line is written
	w   io.Writer
	buf []byte
}

const maxKeptLine = 16 << 10

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	b := append(h.out.buf[:0], levelName(r.Level)...)
	b = r.Time.AppendFormat(b, " 01-02 15:04:05 ")
	b = append(b, oneLine(r.Message)...)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.prefix, a)
		return true
	})
	b = append(b, '\n')
	if cap(b) <= maxKeptLine {
		h.out.buf = b
	}
	_, err := h.out.w.Write(b)
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.prefix, a)
	}
	derived.attrs = string(b)
	return &derived
}

func (h *handler) WithGroup(name string) slog.Handler {
	derived := *h
	derived.prefix += name + "."
	return &derived
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}

func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, member := range v.Group() {
			b = appendAttr(b, prefix+a.Key+".", member)
		}
		return b
	}
	if a.Key == "" {
		return b
	}
	b = append(b, ' ')
	b = append(b, prefix...)
	b = append(b, a.Key...)
	b = append(b, '=')
	s := v.String()
	if strings.ContainsAny(s, " \"=") || s == "" || oneLine(s) != s {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// oneLine escapes what would break the line, command the terminal or turn the
// direction of the text.
func oneLine(s string) string {
	hidden := func(r rune) bool { return !strconv.IsGraphic(r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	q := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
