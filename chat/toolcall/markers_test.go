package toolcall

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a format is forced to write shows its markers.
func TestMarkersAreThoseOfTheForms(t *testing.T) {
	for name, w := range wires {
		require.True(t, Enforceable(name))
		form := w.begin + w.prefix + w.suffix + w.separator + w.end
		found := false
		for _, m := range Markers(name) {
			found = found || strings.Contains(form, m)
		}
		require.Equal(t, name != Generic && !strings.HasPrefix(name, "llama"), found, name)
	}
	for _, name := range Formats() {
		require.NotEmpty(t, Markers(name), name)
	}
	require.False(t, Enforceable("pythonic"))
}
