package sampling_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/sampling"
	"pgregory.net/rapid"
)

func TestStopMatcher(t *testing.T) {
	tests := []struct {
		name    string
		stops   []string
		include bool
		pieces  []string
		emitted []string // one per piece up to the match
		matched string
		flushed string
	}{
		{name: "no stops", pieces: []string{"a", "b"}, emitted: []string{"a", "b"}},
		{name: "inside one piece", stops: []string{"END"}, pieces: []string{"fooENDbar"}, emitted: []string{"foo"}, matched: "END"},
		{name: "over three pieces", stops: []string{"END"}, pieces: []string{"fooE", "N", "Dbar"}, emitted: []string{"foo", "", ""}, matched: "END"},
		{name: "included", stops: []string{"END"}, include: true, pieces: []string{"fooE", "NDbar"}, emitted: []string{"foo", "END"}, matched: "END"},
		{name: "false start", stops: []string{"END"}, pieces: []string{"EN", "EN", "x"}, emitted: []string{"", "EN", "ENx"}},
		{name: "held to the end", stops: []string{"END"}, pieces: []string{"fooEN"}, emitted: []string{"foo"}, flushed: "EN"},
		{name: "self overlap", stops: []string{"aab"}, pieces: []string{"a", "a", "a", "b"}, emitted: []string{"", "", "a", ""}, matched: "aab"},
		{name: "first complete wins", stops: []string{"abcd", "c"}, pieces: []string{"abcd"}, emitted: []string{"ab"}, matched: "c"},
		{name: "longest of those complete", stops: []string{"c", "abc"}, pieces: []string{"xabc"}, emitted: []string{"x"}, matched: "abc"},
		{name: "prefix of another", stops: []string{"stop now", "stop"}, pieces: []string{"stop now"}, emitted: []string{""}, matched: "stop"},
		{name: "newline pair", stops: []string{"\n\n"}, pieces: []string{"a\n", "b\n", "\n"}, emitted: []string{"a", "\nb", ""}, matched: "\n\n"},
		{name: "whole characters", stops: []string{"é!"}, pieces: []string{"è", "é", "?"}, emitted: []string{"è", "", "é?"}},
		{name: "empty stop ignored", stops: []string{""}, pieces: []string{"a"}, emitted: []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := sampling.NewStops(tt.stops).NewMatcher(tt.include)
			for i, piece := range tt.pieces {
				emit, matched, ok := m.Push(piece)
				require.Equal(t, tt.emitted[i], emit)
				last := i == len(tt.pieces)-1
				require.Equal(t, last && tt.matched != "", ok)
				if ok {
					require.Equal(t, tt.matched, matched)
				}
			}
			require.Equal(t, tt.flushed, m.Flush())
		})
	}
}

func TestStopMatcherIgnoresTextAfterMatch(t *testing.T) {
	m := sampling.NewStops([]string{"."}).NewMatcher(false)
	_, _, ok := m.Push("a.b")
	require.True(t, ok)
	emit, _, ok := m.Push("c.d")
	require.Empty(t, emit)
	require.False(t, ok)
	require.Empty(t, m.Flush())
}

func TestMatchersShareTheirStopsOnly(t *testing.T) {
	stops := sampling.NewStops([]string{"END"})
	a, b := stops.NewMatcher(false), stops.NewMatcher(true)
	emit, _, _ := a.Push("fooEN")
	require.Equal(t, "foo", emit)
	emit, _, ok := b.Push("D!")
	require.Equal(t, "D!", emit)
	require.False(t, ok)
	_, matched, _ := a.Push("D")
	require.Equal(t, "END", matched)
	emit, _, _ = b.Push("xEND")
	require.Equal(t, "xEND", emit)
}

// naiveStop searches text for the match that is complete first, the longest among
// those, and returns its borders.
func naiveStop(text string, stops []string) (start, end int, found bool) {
	for end := 1; end <= len(text); end++ {
		best := -1
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) && len(s) > best {
				best = len(s)
			}
		}
		if best > 0 {
			return end - best, end, true
		}
	}
	return 0, 0, false
}

// longestHold returns the length of the longest suffix of text that begins a stop.
func longestHold(text string, stops []string) int {
	hold := 0
	for _, s := range stops {
		for n := 1; n < len(s); n++ {
			if n > hold && strings.HasSuffix(text, s[:n]) {
				hold = n
			}
		}
	}
	return hold
}

func checkStops(t require.TestingT, text string, cuts []int, stops []string, include bool) {
	start, end, found := naiveStop(text, stops)
	m := sampling.NewStops(stops).NewMatcher(include)
	var out strings.Builder
	at := 0
	for _, cut := range append(cuts, len(text)) {
		if cut < at || cut > len(text) {
			continue
		}
		emit, matched, ok := m.Push(text[at:cut])
		out.WriteString(emit)
		at = cut
		if ok {
			require.True(t, found)
			require.LessOrEqual(t, end, cut)
			require.Equal(t, text[start:end], matched)
			want := text[:start]
			if include {
				want = text[:end]
			}
			require.Equal(t, want, out.String())
			require.Empty(t, m.Flush())
			return
		}
		require.Equal(t, text[:cut-longestHold(text[:cut], stops)], out.String())
	}
	require.False(t, found)
	require.Equal(t, text, out.String()+m.Flush())
}

func TestStopMatcherAgainstNaiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abé\n")), 0, 60, -1).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abé\n")), 0, 6, -1), 0, 4).Draw(t, "stops")
		cuts := rapid.SliceOfN(rapid.IntRange(0, 60), 0, 20).Draw(t, "cuts")
		checkStops(t, text, cuts, stops, rapid.Bool().Draw(t, "include"))
	})
}

func TestStopMatcherKeepsCharactersWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SampledFrom([]rune("éèêa€☃"))
		m := sampling.NewStops(rapid.SliceOfN(rapid.StringOfN(runes, 1, 4, -1), 1, 3).Draw(t, "stops")).NewMatcher(false)
		for _, piece := range rapid.SliceOfN(rapid.StringOfN(runes, 0, 3, -1), 0, 20).Draw(t, "pieces") {
			emit, _, _ := m.Push(piece)
			require.True(t, utf8.ValidString(emit))
		}
		require.True(t, utf8.ValidString(m.Flush()))
	})
}

func TestStopMatcherLongHold(t *testing.T) {
	const n = 200_000
	m := sampling.NewStops([]string{strings.Repeat("a", n) + "b"}).NewMatcher(false)
	total := 0
	for range 3 * n {
		emit, _, ok := m.Push("a")
		require.False(t, ok)
		total += len(emit)
	}
	require.Equal(t, 2*n, total)
	emit, _, ok := m.Push("b")
	require.True(t, ok)
	require.Empty(t, emit)
}

func TestStopMatcherPassesTextThroughWithoutAllocating(t *testing.T) {
	m := sampling.NewStops([]string{"</done>"}).NewMatcher(false)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Push(" token") }))
}

func FuzzStopMatcher(f *testing.F) {
	f.Add("hello END world", "END\x00\n\n", []byte{3, 7}, true)
	f.Add("aaaab", "aab\x00ab", []byte{1, 2, 3, 4}, false)
	f.Add("\xff\xfe", "\xfe", []byte{1}, false)
	f.Fuzz(func(t *testing.T, text, stops string, cuts []byte, include bool) {
		if len(text) > 300 || len(stops) > 100 {
			return
		}
		var at []int
		for _, c := range cuts {
			at = append(at, int(c))
		}
		checkStops(t, text, at, strings.Split(stops, "\x00"), include)
	})
}
