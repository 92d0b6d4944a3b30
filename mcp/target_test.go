package mcp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"localhost:1234":             {URL: "http://localhost:1234/mcp"},
		"[::1]:8000":                 {URL: "http://[::1]:8000/mcp"},
		"localhost:1234/x":           {URL: "http://localhost:1234/x"},
		"https://h/mcp?key=a=b":      {URL: "https://h/mcp?key=a=b"},
		"books=http://u:p@h:1/a#f":   {Label: "books", URL: "http://u:p@h:1/a"},
		"my-books_2=localhost:1":     {Label: "my-books_2", URL: "http://localhost:1/mcp"},
		"http://h/path?label=thing":  {URL: "http://h/path?label=thing"},
		"h/path?without-scheme=yes":  {URL: "http://h/path?without-scheme=yes"},
		"b=https://example.com/mcp/": {Label: "b", URL: "https://example.com/mcp/"},
	} {
		got, err := ParseTarget(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                                 "no host",
		"ftp://h/s3cret":                   `"ftp"`,
		"http:///s3cret":                   "no host",
		"http://s3cret\x7f":                "not a URL",
		"a b=http://h/s3cret":              "letters, digits",
		"=http://h/s3cret":                 "1 to 64 characters",
		strings.Repeat("a", 65) + "=h/mcp": "1 to 64 characters",
	} {
		_, err := ParseTarget(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestTargetsAreShownWithoutSecrets(t *testing.T) {
	shown := Target{Label: "books", URL: "http://user:s3cret@h:1/s3cret?key=s3cret"}.shown()
	require.Equal(t, "books at h:1", shown)
}
