package openai

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTokenStringsJoinToTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var a assembler
		var got []byte
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got, rest = a.appendText(got, rest[:n]), rest[n:]
			require.True(t, utf8.Valid(got))
		}
		require.Equal(t, text, string(got))
	})
}

func TestTokenStringsOfBrokenBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		var whole, parts assembler
		want := whole.appendText(nil, raw)
		var got []byte
		for i := range len(raw) {
			got = parts.appendText(got, raw[i:i+1])
		}
		require.Equal(t, string(want), string(got), "how bytes are cut into tokens makes no difference")
	})
	var a assembler
	require.Equal(t, "A(", string(a.appendText(nil, "\xf0\x9f\x98A\xff\xe2(\xe2\x82")))
	require.Equal(t, "€", string(a.appendText(nil, "\xac")))
}

func TestFloats(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 300: "300.0", -0.5: "-0.5", 1e-7: "0.0000001", 1e21: "1000000000000000000000.0", 111.11111111111111: "111.11111111111111"} {
		require.Equal(t, want, string(appendFloat(nil, v, 64)))
	}
	require.Equal(t, "-0.1", string(appendLogprob(nil, -0.1)), "as many digits as a float32 has")
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"\\\n\r\t\x00\x1f\x7f", "é漢😀\u2028", "\xff\xf0\x9f", "<script>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		require.NoError(t, json.Unmarshal(appendString(nil, s), &back))
		require.Equal(t, string([]rune(s)), back)
		require.Equal(t, appendString(nil, s), appendString(nil, []byte(s)))
	})
}

// FuzzScan compares the scanners with encoding/json on any valid JSON.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"\"]"}],"c":null,"a":-1e5}`, ` [ "x" , true,[ ] , {} ] `, `"x"`, `{"\u0061\ud83d" : 1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkBody(b) != nil {
			return
		}
		b = b[skipSpace(b, 0):]
		switch kind(b) {
		case "an object":
			want := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal(b, &want))
			got := map[string]json.RawMessage{}
			for k, v := range members(b) {
				got[k] = v
			}
			require.Equal(t, want, got)
		case "an array":
			want, got := []json.RawMessage{}, []json.RawMessage{}
			require.NoError(t, json.Unmarshal(b, &want))
			for _, v := range elements(b) {
				got = append(got, v)
			}
			require.Equal(t, want, got)
		case "a number":
			if i, ok := parseInteger([]byte(strings.TrimSpace(string(b)))); ok && !i.huge {
				f, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
				require.NoError(t, err)
				require.InEpsilon(t, f+1e300, float64(i.value)+1e300, 1e-9)
			}
		}
	})
}
