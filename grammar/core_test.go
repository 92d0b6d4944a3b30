package grammar_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// bytesVocabulary has one token per byte, some longer ones, and EOS last.
func bytesVocabulary(more ...string) *grammar.Vocabulary {
	var tokens [][]byte
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	for _, s := range more {
		tokens = append(tokens, []byte(s))
	}
	tokens = append(tokens, []byte("</s>"))
	return grammar.NewVocabulary(tokens, grammar.VocabularyOptions{EOS: []int32{int32(len(tokens) - 1)}})
}

// accepts feeds text byte by byte and reports whether it is complete at its
// end. It checks every step against the mask.
func accepts(t *testing.T, m *grammar.Matcher, v *grammar.Vocabulary, text string) bool {
	t.Helper()
	mask := make([]uint64, v.MaskWords())
	for _, b := range []byte(text) {
		m.Mask(mask)
		allowed := mask[b>>6]>>(b&63)&1 != 0
		require.Equal(t, allowed, m.Allowed(int32(b)), "%q in %q", b, text)
		err := m.Accept(int32(b))
		require.Equal(t, allowed, err == nil, "%q in %q", b, text)
		if err != nil {
			return false
		}
	}
	m.Mask(mask)
	eos := int32(v.Size() - 1)
	require.Equal(t, mask[eos>>6]>>(eos&63)&1 != 0, m.Allowed(eos))
	return m.Allowed(eos)
}

func TestChoice(t *testing.T) {
	g, err := grammar.CompileChoice([]string{"yes", "yesterday", "no", "né"}, grammar.Options{})
	require.NoError(t, err)
	v := bytesVocabulary("yes", "ter", "esterd", "yx", "o</")
	for text, want := range map[string]bool{
		"yes": true, "yesterday": true, "no": true, "né": true,
		"": false, "ye": false, "yesterdays": false, "nope": false, "n\xc3": false,
	} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
	m := g.NewMatcher(v)
	require.NoError(t, m.Accept('y'))
	require.Equal(t, "es", string(m.Forced()))
	require.NoError(t, m.Accept(258)) // esterd
	require.Equal(t, "ay", string(m.Forced()))
	m.Rollback(1)
	require.Error(t, m.Accept(257))
	require.NoError(t, m.Accept('e'))
}

func TestJSONObject(t *testing.T) {
	g, err := grammar.CompileJSONObject(grammar.Options{})
	require.NoError(t, err)
	v := bytesVocabulary(`{"`, `":`, `",`, `"}`, "aé", `\u`, "\xc3", "\xa9\"")
	for text, want := range map[string]bool{
		`{}`: true, `{"a":1}`: true, `{"a": [1, 2,{"b":null}],"c":"x\n\u00e9\ud83d\ude00é"}`: true,
		`{"a":1e307}`: true, `{"a":-0.5e-10}`: true, `{"a":1e308}`: false, `{"a":01}`: false, `[]`: false, `{"a":"\ud83d"}`: false,
		`{"a":"\ude00"}`: false, "{\"a\":\"\x01\"}": false, "{\"a\":\"\xc3\"}": false, `{"a":1,}`: false, `{"a" :1}`: false, `{"a":  1}`: false,
		"{\"\xed\xa0\x80\":1}": false, `{"a":true}`: true, `{"a":tru}`: false,
	} {
		require.Equal(t, want, accepts(t, g.NewMatcher(v), v, text), text)
	}
}
