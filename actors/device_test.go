package actors

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/scheduler"
)

// runnerFunc is a runner that is only its Launch.
type runnerFunc struct {
	launch func(*infer.StepPlan, func(*infer.StepResult, error))
	closed *int
}

func (r runnerFunc) Launch(p *infer.StepPlan, done func(*infer.StepResult, error)) { r.launch(p, done) }
func (r runnerFunc) Spec() infer.RunnerSpec {
	return infer.RunnerSpec{NumBlocks: 8, BlockSize: 4, VocabSize: 8, MaxModelLen: 32}
}
func (r runnerFunc) Close() error { *r.closed++; return nil }

// deviceOf opens a device over a Launch.
func deviceOf(t *testing.T, launch func(*infer.StepPlan, func(*infer.StepResult, error))) (*device, *int) {
	closed := 0
	d, err := openDevice(&Config{
		NewRunner: func(int) (infer.Runner, error) { return runnerFunc{launch, &closed}, nil },
		Scheduler: testkit.SchedulerConfig(), Clock: (&testkit.Clock{}).Now,
	}, 0)
	require.NoError(t, err)
	d.run = func(f func()) { f() }
	return d, &closed
}

func TestLaunchPanicEndsTheStepOnce(t *testing.T) {
	d, closed := deviceOf(t, func(*infer.StepPlan, func(*infer.StepResult, error)) { panic("boom") })
	var ends []*StepDone
	d.launch(&infer.StepPlan{}, func(m *StepDone) { ends = append(ends, m) })
	require.Len(t, ends, 1)
	require.ErrorContains(t, ends[0].Err, "boom")
	require.EqualValues(t, 1, ends[0].EndedAt)
	require.NoError(t, d.close())
	require.Equal(t, 1, *closed)
}

func TestDoneCountsOnce(t *testing.T) {
	d, _ := deviceOf(t, func(_ *infer.StepPlan, done func(*infer.StepResult, error)) {
		done(&infer.StepResult{}, nil)
		done(nil, errors.New("again"))
		panic("and again")
	})
	var ends []*StepDone
	d.launch(&infer.StepPlan{}, func(m *StepDone) { ends = append(ends, m) })
	require.Len(t, ends, 1)
	require.NoError(t, ends[0].Err)
	require.NoError(t, d.close())
}

func TestOneStepAtATimeAndCloseWaitsForIt(t *testing.T) {
	synctest.Test(t, testOneStepAtATimeAndCloseWaitsForIt)
}

func testOneStepAtATimeAndCloseWaitsForIt(t *testing.T) {
	var done func(*infer.StepResult, error)
	d, closed := deviceOf(t, func(_ *infer.StepPlan, f func(*infer.StepResult, error)) { done = f })
	d.launch(&infer.StepPlan{}, func(*StepDone) {})
	require.PanicsWithValue(t, "actors: a step is already in flight", func() {
		d.launch(&infer.StepPlan{}, func(*StepDone) {})
	})
	ended := make(chan error)
	go func() { ended <- d.close() }()
	synctest.Wait() // close has come as far as it can
	require.Zero(t, *closed, "closed with a step in flight")
	done(nil, errors.New("late"))
	require.NoError(t, <-ended)
	require.Equal(t, 1, *closed)
}

func TestOpenDeviceFailures(t *testing.T) {
	closed := 0
	runner := runnerFunc{closed: &closed}
	for name, c := range map[string]Config{
		"cannot be opened": {NewRunner: func(int) (infer.Runner, error) { return nil, errors.New("cannot be opened") }},
		"no driver":        {NewRunner: func(int) (infer.Runner, error) { panic("no driver") }},
		"max_num_seqs":     {NewRunner: func(int) (infer.Runner, error) { return runner, nil }, Scheduler: scheduler.Config{}},
	} {
		_, err := openDevice(&c, 0)
		require.ErrorContains(t, err, name)
	}
	require.Equal(t, 1, closed, "a runner without a scheduler is closed")
}
