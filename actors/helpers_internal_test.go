package actors

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

// workbench is the surroundings of one actor under test: an environment whose clock
// stands still, and a recorder that is its parent and everybody it talks to.
// Everything runs on the synchronized dispatcher, so a Send has been handled, with
// all that follows from it, when it returns.
type workbench struct {
	t        *testing.T
	env      *environment
	clock    *testkit.Clock
	recorder *testkit.Recorder
	timers   chan *testTimer // as they are set
	expected int             // sequences that a new batcher waits for
	series   *prometheus.Registry
}

// testTimer fires when the test says so.
type testTimer struct {
	after   time.Duration
	fire    func()
	stopped atomic.Bool
	resets  atomic.Int64
}

func (t *testTimer) Stop() bool { return !t.stopped.Swap(true) }

func (t *testTimer) Reset(time.Duration) bool {
	t.resets.Add(1)
	return !t.stopped.Swap(false)
}

func newWorkbench(t *testing.T) *workbench {
	w := &workbench{t: t, clock: &testkit.Clock{}, timers: make(chan *testTimer, 16), series: prometheus.NewRegistry()}
	logger := testLogger()
	w.recorder = testkit.NewRecorder(t, testkit.System())
	w.env = &environment{
		series: []*metrics.Engine{metrics.NewEngine(w.series, metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})},
		root:   testkit.System().Root, strategy: &stopOnFailure{logger: logger}, tokenizer: testkit.Tokenizer(),
		logger: logger, clock: w.clock.Now, admission: &admission{maxRunning: 8, clock: w.clock.Now},
		registry: newRegistry(), health: new(atomic.Int32), perRequestMetrics: true, streamInterval: 1, recoveryTimeout: time.Minute,
		after: func(d time.Duration, f func()) timer {
			timer := &testTimer{after: d, fire: f}
			w.timers <- timer
			return timer
		},
	}
	w.env.abandoned = newAbandonment(w.env.after, logger)
	return w
}

// send sends a message and waits for all that follows from it.
func (w *workbench) send(to *actor.PID, message any) { w.env.root.Send(to, message) }

// counted returns the value of a counter, or the sum of a histogram's samples,
// summed over its labels.
func (w *workbench) counted(name string) (sum float64) {
	families, err := w.series.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
			return sum
		}
	}
	require.Fail(w.t, "no such series", name)
	return 0
}

// newJob returns a job of one prompt with n choices, admitted.
func (w *workbench) newJob(n int, change func(*infer.SamplingParams)) *job {
	req := testkit.Completion("hi", 8)
	req.N = n
	if change != nil {
		change(&req.Sampling)
	}
	j := newJob(req, req.Sampling.Stop)
	j.numPromptTokens = 2
	j.addChoices(&prompt{tokenIDs: []int32{'h', 'i'}, maxTokens: 8}, req.Sampling, 1)
	for i := range j.sequences {
		j.sequences[i].id = infer.SeqID(100 + i)
	}
	places, err, _ := w.env.admission.admit(make([]int, n))
	require.Nil(w.t, err)
	for i := range places {
		j.sequences[i].place = places[i]
	}
	j.stream = newStream("id", w.env.root, 1<<20)
	require.True(w.t, w.env.registry.enter(j.stream))
	return j
}

func testLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// one returns the only element.
func one[T any](t *testing.T, s []T) T {
	t.Helper()
	require.Len(t, s, 1)
	return s[0]
}
