//go:build faultinject

package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

// quiet is a runner whose steps succeed.
type quiet struct{ infer.Runner }

func (quiet) Launch(_ *infer.StepPlan, done func(*infer.StepResult, error)) {
	done(&infer.StepResult{}, nil)
}

func launch(args map[string]string, numOutput int, sample bool) error {
	plan := &infer.StepPlan{Sequences: []infer.ScheduledSequence{
		{SeqID: 1, Sample: true, Params: &infer.SamplingParams{}},
		{SeqID: 2, Sample: sample, Params: &infer.SamplingParams{ExtraArgs: args}, OutputTokenIDs: make([]int32, numOutput)},
	}}
	result := make(chan error, 1)
	withFaults(quiet{}).Launch(plan, func(_ *infer.StepResult, err error) { result <- err })
	return <-result
}

func TestFaults(t *testing.T) {
	require.NoError(t, launch(nil, 0, true))
	require.NoError(t, launch(map[string]string{"other": "1"}, 0, true))
	require.NoError(t, launch(map[string]string{"troupe_fault": "panic-in-step"}, 0, false), "nothing is sampled yet")
	require.NoError(t, launch(map[string]string{"troupe_fault": "panic-in-step", "troupe_fault_after": "3"}, 2, true))

	var culprit *infer.SequenceFault
	require.ErrorAs(t, launch(map[string]string{"troupe_fault": `"panic-in-sampling"`, "troupe_fault_after": "3"}, 3, true), &culprit)
	require.Equal(t, infer.SeqID(2), culprit.SeqID)
	for kind, want := range map[string]string{"panic-in-step": "panic: injected", "error-in-step": "injected error"} {
		err := launch(map[string]string{"troupe_fault": kind}, 0, true)
		require.ErrorContains(t, err, want)
		require.False(t, errors.As(err, &culprit))
	}
}
