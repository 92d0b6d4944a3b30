package marker_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat/internal/marker"
	"pgregory.net/rapid"
)

// scan returns the text with every hit in guillemets.
func scan(m *marker.Matcher, text string) string {
	var b strings.Builder
	for i := range len(text) {
		released, hit := m.Step(text[i])
		b.Write(released)
		if hit != "" {
			b.WriteString("\u00ab" + hit + "\u00bb")
		}
	}
	b.Write(m.Flush())
	return b.String()
}

func TestMatcherFindsEveryPattern(t *testing.T) {
	for in, want := range map[string]string{
		"":                  "",
		"plain":             "plain",
		"a<think>b":         "a\u00ab<think>\u00bbb",
		"<<think>":          "<\u00ab<think>\u00bb",
		"<thi<think></thin": "<thi\u00ab<think>\u00bb</thin",
		"</think></think>":  "\u00ab</think>\u00bb\u00ab</think>\u00bb",
		"aabaabaac":         "aab\u00abaabaac\u00bb",
	} {
		require.Equal(t, want, scan(marker.New("<think>", "</think>", "aabaac"), in), in)
	}
}

func TestMatcherHoldsOnlyWhatMayBecomeAPattern(t *testing.T) {
	m := marker.New("<think>")
	for i, c := range []byte("x<thin") {
		m.Step(c)
		require.Equal(t, i, m.Held())
	}
	released, hit := m.Step('g')
	require.Equal(t, "<thing", string(released))
	require.Empty(t, hit)
	require.Zero(t, m.Held())
}

func TestMatcherAgreesWithSearching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab<")), 0, 40, -1).Draw(t, "text")
		want := strings.ReplaceAll(text, "<ab<", "\u00ab<ab<\u00bb")
		require.Equal(t, want, scan(marker.New("<ab<"), text))
	})
}

func TestWholeRunes(t *testing.T) {
	text := "a\u00e9\u20ac\U0001F600z"
	for i := range len(text) + 1 {
		n := marker.WholeRunes([]byte(text[:i]))
		require.True(t, utf8.ValidString(text[:n]), i)
		require.Less(t, i-n, 4)
		if utf8.ValidString(text[:i]) {
			require.Equal(t, i, n)
		}
	}
	for _, bad := range []string{"\x80", "a\x80\x80\x80\x80", "\xe2a"} {
		require.Equal(t, len(bad), marker.WholeRunes([]byte(bad)), "%q", bad)
	}
}
