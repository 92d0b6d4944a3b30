package model_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

func TestWarmUpRunsTwoStepsAndLeavesNoTrace(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	m := load(t, small.Write(t, "F32", 1), o)
	cold := threeSequences(small)
	(&driver{runner: newRunner(t, m)}).run(t, cold...)

	steps := 0
	o.Backend.(*tapped).onEmbed = func() { steps++ }
	r := newRunner(t, m)
	require.NoError(t, r.WarmUp())
	require.Equal(t, 2, steps)
	o.Backend.(*tapped).onEmbed = nil

	warm := threeSequences(small)
	(&driver{runner: r}).run(t, warm...)
	for i := range cold {
		require.Equal(t, cold[i].output, warm[i].output)
		require.Equal(t, bitsOf(cold[i].logprobs), bitsOf(warm[i].logprobs))
		require.Equal(t, bitsOf(cold[i].promptLogprobs), bitsOf(warm[i].promptLogprobs))
	}
}

func TestWarmUpLeavesOutWhatHasNoRoom(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	o.MaxNumBatchedTokens = 16
	m := load(t, small.Write(t, "F32", 1), o)
	steps := 0
	o.Backend.(*tapped).onEmbed = func() { steps++ }
	require.NoError(t, newRunner(t, m).WarmUp())
	require.Equal(t, 1, steps)
}

func TestWarmUpReportsABrokenDevice(t *testing.T) {
	o := options(t)
	m := load(t, modelkit.Small(1).Write(t, "F32", 1), o)
	o.Backend.(*tapped).onSync = func() error { return errors.New("device lost") }
	r := newRunner(t, m)
	require.ErrorContains(t, r.WarmUp(), "device lost")
	o.Backend.(*tapped).onSync = nil
}
