package reasoning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/chat/reasoning"
)

func TestBlockOf(t *testing.T) {
	off := false
	for _, tc := range []struct {
		name         string
		options      reasoning.Options
		none, inside bool
	}{
		{"glm45", reasoning.Options{}, false, false}, {"glm45", reasoning.Options{Prompt: "<think>\n"}, false, true},
		{"glm45", reasoning.Options{Prompt: "<think>\n\n</think>\n\n"}, true, false}, {"deepseek_r1", reasoning.Options{}, false, true},
		{"qwen3", reasoning.Options{Thinking: &off}, false, false}, {"none", reasoning.Options{}, true, false},
	} {
		b, err := reasoning.BlockOf(tc.name, tc.options)
		require.NoError(t, err)
		require.Equal(t, []bool{tc.none, tc.inside}, []bool{b.None, b.Inside}, "%+v", tc)
	}
	_, err := reasoning.BlockOf("no", reasoning.Options{})
	require.ErrorContains(t, err, "not known")
	require.Equal(t, []string{"[THINK]", "[/THINK]"}, reasoning.Markers("mistral"))
}
