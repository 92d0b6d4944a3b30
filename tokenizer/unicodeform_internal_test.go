package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
)

var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// markedText draws text with much to order and compose.
func markedText() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(
		rapid.RuneFrom([]rune("aeoA ﬁÅ각가각がか\u0301\u0316\u0323\u0307\u0302\u0345\u09c7\u09be\u0344ệ½ſ\u1e9b")),
		rapid.Rune(),
	), 0, 25), func(r []rune) string { return string(r) })
}

func TestLongFormAgreesWithPackageNorm(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := markedText().Draw(t, "text")
				require.Equal(t, form.String(text), normalizeLong(form, text))
			})
		})
	}
}

func TestLongRunsOfMarksGetNoJoiner(t *testing.T) {
	text := "x" + strings.Repeat("\u0301\u0316", 40) + "각"
	for name, form := range forms {
		out := unicodeForm(form).apply(text)
		require.NotContains(t, out, graphemeJoiner, name)
	}
	require.Equal(t, "á"+strings.Repeat("\u0316", 40)+strings.Repeat("\u0301", 39), unicodeForm(norm.NFC).apply("a"+strings.Repeat("\u0301\u0316", 40)))
}

func TestNormalizersMapSpans(t *testing.T) {
	all := map[string]normalizer{
		"NFC": unicodeForm(norm.NFC), "NFKD": unicodeForm(norm.NFKD), "Prepend": prepend("▁"),
		"Replace": replace{"a", "bcd"}, "Delete": replace{"e", ""},
	}
	for name, n := range all {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				before, inside, after := markedText().Draw(t, "before"), "{|"+markedText().Draw(t, "inside")+"|}", markedText().Draw(t, "after")
				text := before + inside + after
				out, moved := n.normalize(text, []infer.Span{{Start: len(before), End: len(before) + len(inside)}})
				whole, _ := n.normalize(text, nil)
				require.Equal(t, whole, out, "spans do not change the text")
				require.Len(t, moved, 1)
				core, _ := n.normalize(inside, nil)
				core = strings.TrimPrefix(core, "▁")
				got := out[moved[0].Start:moved[0].End]
				require.GreaterOrEqual(t, strings.Index(got, "{|"), 0, "%q", got)
				require.Contains(t, got, core[:2])
				require.Contains(t, got, "|}")
			})
		})
	}
}
