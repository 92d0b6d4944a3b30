package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// progressAt returns a progress whose clock the test sets.
func progressAt(terminal bool) (p *progress, out *bytes.Buffer, now *time.Time) {
	out = &bytes.Buffer{}
	start := time.Unix(1000, 0)
	p = newProgress(out, terminal)
	p.start, p.now = start, func() time.Time { return start }
	now = &start
	return p, out, now
}

func TestProgressIsSilentAtFirst(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		p, out, now := progressAt(terminal)
		p.update(1, 100)
		*now = now.Add(999 * time.Millisecond)
		p.update(99, 100)
		p.stop()
		require.Empty(t, out.String())
	}
}

func TestProgressWritesLinesWithoutATerminal(t *testing.T) {
	p, out, now := progressAt(false)
	for i := range int64(12) {
		*now = now.Add(time.Second)
		p.update(i*(1<<30), 12<<30)
	}
	p.stop()
	require.Equal(t, "Loading weights: 0% of 12.0 GiB\nLoading weights: 41% of 12.0 GiB\nLoading weights: 83% of 12.0 GiB\n", out.String())
}

func TestProgressEndsWithItsBar(t *testing.T) {
	p, _, now := progressAt(true)
	*now = now.Add(time.Hour)
	p.update(1<<20, 4<<20)
	require.NotNil(t, p.bar)
	p.update(2<<20, 4<<20)
	require.EqualValues(t, 2<<20, p.bar.Current())
	p.stop()
	require.True(t, p.bar.Aborted())
}

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 30: "1.0 GiB", 1 << 62: "4.0 EiB"} {
		require.Equal(t, want, byteSize(n))
	}
	for n, want := range map[int64]string{12: "12", 2_831_232: "2.8 M", 7_241_732_096: "7.24 B"} {
		require.Equal(t, want, shortCount(n))
	}
}
