package actors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// poison is a token that no request draws by itself: it stands in the prompt of
// a request that kills every step it is aboard of.
const poison = testkit.BOS

// script is the fault plan of one scenario; the device of a test plays one after
// the other.
type script struct {
	first atomic.Int64 // number of the device's step before this scenario
	fault atomic.Pointer[func(step int, plan *infer.StepPlan) error]
}

func (s *script) play(d *testkit.Device, fault func(step int, plan *infer.StepPlan) error) {
	s.first.Store(int64(d.NumSteps()))
	s.fault.Store(&fault)
}

func (s *script) ask(step int, plan *infer.StepPlan) error {
	if f := s.fault.Load(); f != nil {
		return (*f)(step-int(s.first.Load()), plan)
	}
	return nil
}

// simulated starts an engine whose device plays a script. Blocks are scarce, so
// that sequences are preempted; some steps end before Launch returns, and now and
// then a sequence has to wait for its mask.
func simulated(t testing.TB) (*actors.Engine, *testkit.Device, *script) {
	s := &script{}
	var drawn atomic.Int64
	d := testkit.NewDevice(testkit.DeviceOptions{
		NumBlocks: 32, NumSpecTokens: 3, Fault: s.ask,
		Inline: func(step int) bool { return step%3 == 0 },
		Defer:  func(*infer.ScheduledSequence) bool { return drawn.Add(1)%7 == 0 },
	})
	e := startEngine(t, d, func(c *actors.Config) { c.StreamInterval = 2 })
	return e, d, s
}

// randomRequests returns requests that use what could go wrong with a resume.
func randomRequests(rng *rand.Rand, n int) []*infer.Request {
	requests := make([]*infer.Request, n)
	for i := range requests {
		req := testkit.Completion("", 1+rng.IntN(24))
		req.ID = fmt.Sprint("cmpl-", i)
		req.Prompts = req.Prompts[:0]
		for range 1 + rng.IntN(2) {
			req.Prompts = append(req.Prompts, infer.Prompt{TokenIDs: prompt(1+rng.IntN(30), int32(rng.IntN(4)))})
		}
		req.N = 1 + rng.IntN(2)
		req.Sampling.Seed = rng.Uint64()
		req.Sampling.NumLogprobs = rng.IntN(4) - 1
		if rng.IntN(3) == 0 {
			req.Sampling.NumPromptLogprobs = rng.IntN(3)
		}
		if rng.IntN(2) == 0 {
			req.Sampling.Stop = []string{string(rune('a' + rng.IntN(26))), "zz"}
			req.Sampling.MinTokens = min(rng.IntN(6), *req.MaxTokens)
			req.Sampling.IncludeStopStrInOutput = rng.IntN(2) == 0
		}
		req.Echo = rng.IntN(4) == 0
		requests[i] = req
	}
	return requests
}

// runAll runs requests at the same time. Those with a positive cancelAfter are
// cancelled after so many wake-ups of their reader.
func runAll(t testing.TB, e *actors.Engine, requests []*infer.Request, cancelAfter []int) []*answer {
	t.Helper()
	answers, errs := make([]*answer, len(requests)), make([]error, len(requests))
	var wg sync.WaitGroup
	for i, req := range requests {
		stream, err := e.Generate(context.Background(), req)
		require.NoError(t, err)
		if cancelAfter != nil && cancelAfter[i] > 0 {
			stream = &cancelling{Stream: stream, after: cancelAfter[i]}
		}
		wg.Go(func() { answers[i], errs[i] = read(stream) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return answers
}

// cancelling is a client that goes away.
type cancelling struct {
	infer.Stream
	after int
}

func (c *cancelling) Drain(buf []infer.Event) []infer.Event {
	if c.after--; c.after == 0 {
		c.Cancel(infer.CancelClientGone)
	}
	return c.Stream.Drain(buf)
}

// requireSame asserts that a client saw what it sees when nothing happens.
func requireSame(t testing.TB, quiet, got *answer, message string) {
	t.Helper()
	require.Nil(t, got.final.Err, message)
	require.Equal(t, quiet.final.Usage.NumCompletionTokens, got.final.Usage.NumCompletionTokens, message)
	require.Equal(t, quiet.final.Usage.NumPromptTokens, got.final.Usage.NumPromptTokens, message)
	require.Equal(t, len(quiet.choices), len(got.choices), message)
	for i, want := range quiet.choices {
		c := got.choices[i]
		require.NotNil(t, c, message)
		want.deltas, c.deltas = 0, 0 // how the text was cut depends on the reader's pace
		require.Equal(t, want, c, message)
	}
}

// requirePrefix asserts that a request that ended early got nothing wrong before.
func requirePrefix(t testing.TB, quiet, got *answer, message string) {
	t.Helper()
	for i, c := range got.choices {
		want := quiet.choices[i]
		require.LessOrEqual(t, len(c.tokenIDs), len(want.tokenIDs), message)
		require.Equal(t, want.tokenIDs[:len(c.tokenIDs)], c.tokenIDs, message)
		require.Equal(t, want.text[:min(len(c.text), len(want.text))], c.text, message)
	}
}

// TestFailureAtEveryStep fails each step of a scenario in turn: every client
// gets the tokens of the quiet run.
func TestFailureAtEveryStep(t *testing.T) {
	quiet, _, _ := simulated(t)
	e, d, s := simulated(t)
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		requests := randomRequests(rng, 5)
		want := runAll(t, quiet, requests, nil)
		for k, reached := 1, true; reached; k++ {
			reached = false
			s.play(d, func(step int, _ *infer.StepPlan) error {
				if step != k {
					return nil
				}
				reached = true
				return []error{errors.New("scripted failure"), testkit.Panic{Value: "scripted panic"},
					testkit.BrokenResult{Kind: testkit.Garbage(k % testkit.NumGarbage)}}[(k+int(seed))%3]
			})
			for i, got := range runAll(t, e, requests, nil) {
				requireSame(t, want[i], got, fmt.Sprintf("seed %d, failure at step %d, request %d", seed, k, i))
			}
		}
	}
}

// TestManyFailures fails one in four of the steps that several sequences share,
// while some clients go away.
func TestManyFailures(t *testing.T) {
	quiet, _, _ := simulated(t)
	e, d, s := simulated(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		requests := randomRequests(rng, 6)
		want := runAll(t, quiet, requests, nil)
		cancelAfter := make([]int, len(requests))
		for i := range cancelAfter {
			cancelAfter[i] = max(rng.IntN(12)-6, 0)
		}
		s.play(d, func(step int, plan *infer.StepPlan) error {
			if len(plan.Sequences) > 1 && (uint64(step)*2654435761+seed)>>7%4 == 0 {
				return errors.New("scripted failure")
			}
			return nil
		})
		for i, got := range runAll(t, e, requests, cancelAfter) {
			message := fmt.Sprintf("seed %d, request %d", seed, i)
			if cancelAfter[i] > 0 {
				require.Nil(t, got.final.Err, message)
				requirePrefix(t, want[i], got, message)
			} else {
				requireSame(t, want[i], got, message)
			}
		}
	}
	require.Greater(t, d.NumOpened(), 100, "the script did fail the device")
}

// TestPoisonFailsAlone puts one request among others that kills every step it is
// aboard of, without being named.
func TestPoisonFailsAlone(t *testing.T) {
	quiet, _, _ := simulated(t)
	e, d, s := simulated(t)
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 3))
		requests := randomRequests(rng, 5)
		want := runAll(t, quiet, requests, nil)
		bad := testkit.Completion("", 4)
		bad.Prompts[0].TokenIDs = append(prompt(rng.IntN(20), 1), poison)
		s.play(d, func(_ int, plan *infer.StepPlan) error {
			for _, seq := range plan.Sequences {
				if slices.Contains(seq.TokenIDs, poison) {
					return errors.New("poisoned")
				}
			}
			return nil
		})
		at := rng.IntN(len(requests) + 1)
		got := runAll(t, e, slices.Insert(slices.Clone(requests), at, bad), nil)
		requireError(t, got[at].final.Err, infer.CodeEngineFault, "Internal server error")
		for i, a := range slices.Delete(got, at, at+1) {
			requireSame(t, want[i], a, fmt.Sprintf("seed %d, request %d", seed, i))
		}
	}
}

// TestAttributedFault names the culprit at once: one restart, one 500.
func TestAttributedFault(t *testing.T) {
	quiet, _, _ := simulated(t)
	e, d, s := simulated(t)
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 4))
		requests := randomRequests(rng, 5)
		want := runAll(t, quiet, requests, nil)
		opened, row := d.NumOpened(), seed%2 == 0
		culprits := atomic.Int64{}
		s.play(d, func(step int, plan *infer.StepPlan) error {
			if step != 2 {
				return nil
			}
			culprits.Add(1)
			id := plan.Sequences[int(seed)%len(plan.Sequences)].SeqID
			if row {
				return testkit.RowFault{SeqID: id, Err: errors.New("logits are not finite")}
			}
			return &infer.SequenceFault{SeqID: id, Err: errors.New("panic while sampling")}
		})
		failed := int64(0)
		for i, got := range runAll(t, e, requests, nil) {
			if got.final.Err != nil {
				failed++
				requirePrefix(t, want[i], got, fmt.Sprintf("seed %d, request %d", seed, i))
				continue
			}
			requireSame(t, want[i], got, fmt.Sprintf("seed %d, request %d", seed, i))
		}
		require.Equal(t, culprits.Load(), failed, "seed %d", seed)
		if row {
			require.Equal(t, opened, d.NumOpened(), "a row's fault ends no step")
		} else {
			require.Equal(t, opened+1, d.NumOpened(), "seed %d", seed)
		}
	}
}
