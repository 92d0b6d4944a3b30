package hub

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedirects(t *testing.T) {
	for _, tt := range []struct{ from, location, to, err string }{
		{"https://h/a/b", "/c", "https://h/c", ""},
		{"https://h/a/b", "https://cdn/x?sig=1#f", "https://cdn/x?sig=1", ""},
		{"https://h/a", "https://user:pass@cdn/x", "https://cdn/x", ""},
		{"http://h/a", "https://h/a", "https://h/a", ""},
		{"http://h/a", "http://other/a", "http://other/a", ""},
		{"https://h/a", "http://h/a", "", "from https to http"},
		{"https://h/a", "ftp://h/a", "", `a "ftp" address`},
		{"https://h/a", "", "", "to nowhere"},
		{"https://h/a", "https:///x", "", "to nowhere"},
		{"https://h/a", "%zz", "", "to nowhere"},
	} {
		from, err := url.Parse(tt.from)
		require.NoError(t, err)
		to, err := target(from, tt.location)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.to, to.String())
	}
}

// Only the very same address gets the token.
func TestSameHost(t *testing.T) {
	hub, err := url.Parse("https://hub.co")
	require.NoError(t, err)
	for s, want := range map[string]bool{
		"https://hub.co/x": true, "https://HUB.co/x": true, "http://hub.co/x": false, "https://hub.co:8443/x": false, "https://cdn.hub.co/x": false, "https://hub.co.evil/x": false,
	} {
		u, err := url.Parse(s)
		require.NoError(t, err)
		require.Equal(t, want, sameHost(u, hub), s)
	}
}
