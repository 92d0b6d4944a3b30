package actors_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestOneCompletion(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{})
	e := startEngine(t, d, nil)
	req := testkit.Completion("hello", 20)
	a := generate(t, e, req)

	params := req.Sampling
	want := testkit.Continue([]int32("hello"), &params)
	require.Equal(t, want, a.choices[0].tokenIDs)
	require.Nil(t, a.final.Err)
	require.Equal(t, infer.Usage{NumPromptTokens: 5, NumCompletionTokens: len(want)}, a.final.Usage)
	require.NotNil(t, a.final.Metrics)
}
