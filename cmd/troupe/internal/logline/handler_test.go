package logline_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/logline"
)

func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := logline.New(&out, slog.LevelInfo)
	l.Debug("not shown")
	l.Info("Engine 000: Avg prompt throughput: 0.0 tokens/s")
	l.Warn("odd", "n", 3, "s", "two words", "e", errors.New("line\nbreak"), "empty", "", "d", 2*time.Second)
	l.Warn("é漢😀\u00a0\u0085\u202e\xff", "path", "/\u009b31m")
	l.With("id", "x").WithGroup("g").Error("bad\x1b[2J \"quoted\"\nsecond line", "k", "v", slog.Group("h", "m", 1))
	require.Regexp(t, `^INFO \d\d-\d\d \d\d:\d\d:\d\d Engine 000: Avg prompt throughput: 0.0 tokens/s
WARNING \d\d-\d\d \d\d:\d\d:\d\d odd n=3 s="two words" e="line\\nbreak" empty="" d=2s
WARNING \d\d-\d\d \d\d:\d\d:\d\d é漢😀\x{a0}\\u0085\\u202e\\xff path="/\\u009b31m"
ERROR \d\d-\d\d \d\d:\d\d:\d\d bad\\x1b\[2J "quoted"\\nsecond line id=x g.k=v g.h.m=1
$`, out.String())
}

func TestParseLevel(t *testing.T) {
	for word, want := range map[string]slog.Level{
		"trace": slog.LevelDebug, "DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "": slog.LevelInfo,
		"WARNING": slog.LevelWarn, "error": slog.LevelError, "critical": logline.LevelCritical,
	} {
		require.Equal(t, want, logline.ParseLevel(word), word)
	}
	var out bytes.Buffer
	logline.New(&out, logline.LevelCritical).Error("not shown")
	require.Empty(t, out.String())
}
