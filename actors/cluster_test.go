package actors_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/scheduler"
)

var numSeeds = flag.Uint64("seeds", 300, "random runs of TestSimulation")

// cluster is an engine of several batchers in a bubble, and one that nothing ever
// happens to.
type cluster struct {
	t       *testing.T
	quiet   *actors.Engine
	engine  *actors.Engine
	devices []*testkit.Device

	gate    chan struct{} // closed = no step waits
	mu      sync.Mutex
	fault   func(batcher int, plan *infer.StepPlan) error // nil = none
	opening func() error                                  // nil = none fails
	steps   []int                                         // per batcher, since the last play
}

func newCluster(t *testing.T, numBatchers int) *cluster {
	c := &cluster{t: t, gate: make(chan struct{}), steps: make([]int, numBatchers)}
	c.quiet = startEngine(t, testkit.NewDevice(testkit.DeviceOptions{NumBlocks: 32}), bubbleClock)
	for i := range numBatchers {
		c.devices = append(c.devices, testkit.NewDevice(testkit.DeviceOptions{
			NumBlocks: 32, NumSpecTokens: 2 * i, Inline: func(step int) bool { return step%3 == 0 },
			Fault:     func(_ int, plan *infer.StepPlan) error { return c.ask(i, plan) },
			OpenFault: c.askOpen,
			Next: func(history []int32, p *infer.SamplingParams) int32 {
				<-c.gate
				return testkit.NextToken(history, p)
			},
		}))
	}
	c.engine = startEngine(t, c.devices[0], func(config *actors.Config) {
		bubbleClock(config)
		config.StepTimeout, config.StreamInterval, config.DataParallelSize = time.Second, 2, numBatchers
		config.NewRunner = func(batcher int) (infer.Runner, error) { return c.devices[batcher].NewRunner(batcher) }
	})
	c.engine.OnCommit(func(s *scheduler.Scheduler) {
		if err := s.CheckInvariants(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// play starts a scenario.
func (c *cluster) play(fault func(batcher int, plan *infer.StepPlan) error, opening func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault, c.opening = fault, opening
	clear(c.steps)
}

func (c *cluster) ask(batcher int, plan *infer.StepPlan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[batcher]++
	if c.fault == nil {
		return nil
	}
	return c.fault(batcher, plan)
}

func (c *cluster) askOpen(int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opening == nil {
		return nil
	}
	return c.opening()
}

// settle ends a scenario: all steps that hang end, all devices are opened, and
// nothing is left.
func (c *cluster) settle() {
	c.play(nil, nil)
	for _, d := range c.devices {
		d.Release()
	}
	<-time.After(time.Minute)
	synctest.Wait()
	require.NoError(c.t, c.engine.Health())
	require.Empty(c.t, c.engine.Requests())
	for _, d := range c.devices {
		require.NotNil(c.t, d.Runner())
		require.NoError(c.t, d.Check())
	}
}

// faults are what steps may end with.
func faults(rng *rand.Rand) error {
	return []error{
		errors.New("scripted failure"),
		testkit.Panic{Value: "scripted panic"},
		testkit.Stall{InLaunch: rng.IntN(2) == 0},
		testkit.BrokenResult{Kind: testkit.Garbage(rng.IntN(testkit.NumGarbage))},
	}[rng.IntN(4)]
}

// TestTakeOver fails each step of each batcher in turn: the others take over, and
// every client gets the tokens of the quiet run.
func TestTakeOver(t *testing.T) {
	for _, numBatchers := range []int{2, 3} {
		t.Run(fmt.Sprint(numBatchers), func(t *testing.T) {
			bubble(t, func(t *testing.T) { testTakeOver(newCluster(t, numBatchers)) })
		})
	}
}

func testTakeOver(c *cluster) {
	close(c.gate)
	rng := rand.New(rand.NewPCG(1, uint64(len(c.devices))))
	requests := randomRequests(rng, 6)
	want := runAll(c.t, c.quiet, requests, nil)
	recoveries := 0
	for failing := range c.devices {
		for k, reached := 1, true; reached; k++ {
			reached = false
			c.play(func(batcher int, _ *infer.StepPlan) error {
				if batcher != failing || c.steps[batcher] != k {
					return nil
				}
				reached = true
				return faults(rng)
			}, nil)
			for i, got := range runAll(c.t, c.engine, requests, nil) {
				requireSame(c.t, want[i], got, fmt.Sprintf("batcher %d fails at step %d, request %d", failing, k, i))
				recoveries += got.final.NumRecoveries
			}
			c.settle()
		}
	}
	require.Positive(c.t, recoveries)
}

// TestSequencesAreSpread: new sequences go to the batcher with the fewest, and
// those of a dead one to the living.
func TestSequencesAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3)
		aboard := make([]map[infer.SeqID]bool, 3)
		c.play(func(batcher int, plan *infer.StepPlan) error {
			if aboard[batcher] == nil {
				aboard[batcher] = map[infer.SeqID]bool{}
			}
			for i := range plan.Sequences {
				aboard[batcher][plan.Sequences[i].SeqID] = true
			}
			if batcher == 1 && len(plan.Sequences) == 2 {
				return errors.New("scripted failure")
			}
			return nil
		}, func() error { return errors.New("not yet") })
		req := endless(60)
		req.N = 6
		s, err := c.engine.Generate(context.Background(), req)
		require.NoError(t, err)
		synctest.Wait() // all six are with their batchers
		close(c.gate)
		a, err := read(s)
		require.NoError(t, err)
		require.Nil(t, a.final.Err)
		require.Equal(t, 1, a.final.NumRecoveries)
		require.Len(t, aboard[1], 2)
		require.GreaterOrEqual(t, len(aboard[0]), 2)
		require.GreaterOrEqual(t, len(aboard[2]), 2)
		require.Equal(t, 6, len(aboard[0])+len(aboard[2]), "those of the dead batcher went to the others")
		c.settle()
	})
}

// TestHealthIsAboutTheLastBatcher: the server is healthy while one batcher lives.
func TestHealthIsAboutTheLastBatcher(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2)
		close(c.gate)
		dead := map[int]bool{}
		c.play(func(batcher int, _ *infer.StepPlan) error {
			if c.steps[batcher] == 3 {
				dead[batcher] = true
				return errors.New("device lost")
			}
			return nil
		}, func() error { return errors.New("device lost") })
		one, err := c.engine.Generate(context.Background(), endless(2))
		require.NoError(t, err)
		_, err = read(one)
		require.NoError(t, err)
		require.NoError(t, c.engine.Health())
		req := endless(8)
		req.N = 2
		s, err := c.engine.Generate(context.Background(), req)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, dead, 2)
		requireError(t, c.engine.Health(), infer.CodeUnavailable, "recovering")
		a, err := read(s) // after the recovery timeout
		require.NoError(t, err)
		requireError(t, a.final.Err, infer.CodeUnavailable, "No inference device")
		requireError(t, c.engine.Health(), infer.CodeUnavailable, "No inference device")
		c.settle()
	})
}

// TestSimulation plays random requests against random faults: panics, errors,
// steps and launches that hang, garbage for results, devices that cannot be
// opened, clients that leave, and now and then requests that kill every step. Such a
// one gets an error: its own, or that of an outage if others like it are all there is.
func TestSimulation(t *testing.T) {
	const perBubble = 100
	for first := uint64(0); first < *numSeeds; first += perBubble {
		for numBatchers := 1; numBatchers <= 3; numBatchers++ {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, numBatchers)
				close(c.gate)
				for seed := first + uint64(numBatchers) - 1; seed < min(first+perBubble, *numSeeds); seed += 3 {
					c.simulate(seed)
				}
			})
		}
	}
}

func (c *cluster) simulate(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	requests := randomRequests(rng, 3+rng.IntN(4))
	for i, req := range requests {
		req.Key = []string{"", "a", "b"}[i%(1+rng.IntN(3))]
	}
	chaos := newChaos(rng)
	isBad := make([]bool, len(requests))
	for range max(rng.IntN(4)-1, 0) {
		at := rng.IntN(len(requests) + 1)
		requests, isBad = slices.Insert(requests, at, poisonous(rng)), slices.Insert(isBad, at, true)
	}
	want := runAll(c.t, c.quiet, requests, nil)
	cancelAfter := make([]int, len(requests))
	for i := range cancelAfter {
		if !isBad[i] {
			cancelAfter[i] = max(rng.IntN(20)-14, 0)
		}
	}
	c.play(chaos.ask, func() error {
		if rng.IntN(4) == 0 {
			return errors.New("scripted failure to open")
		}
		return nil
	})
	for i, got := range runAll(c.t, c.engine, requests, cancelAfter) {
		message := fmt.Sprintf("seed %d, request %d", seed, i)
		switch {
		case isBad[i]:
			require.NotNil(c.t, got.final.Err, message)
			require.Contains(c.t, []infer.Code{infer.CodeEngineFault, infer.CodeUnavailable}, got.final.Err.Code, message)
			require.Regexp(c.t, "the engine failed .* at this request alone|failed again and again", got.final.Err.Message, message)
			require.Equal(c.t, infer.FinishError, got.final.FinishReason, message)
			requirePrefix(c.t, want[i], got, message)
			require.Equal(c.t, poisonedAfter(requests[i]), got.final.Usage.NumCompletionTokens, message)
		case cancelAfter[i] > 0:
			require.Nil(c.t, got.final.Err, message)
			requirePrefix(c.t, want[i], got, message)
		default:
			requireSame(c.t, want[i], got, message)
		}
	}
	c.settle()
}

// poisonous returns a request that kills every step that would give it one token
// more than some number of them, which its prompt says.
func poisonous(rng *rand.Rand) *infer.Request {
	req := endless(8)
	req.Prompts[0] = infer.Prompt{TokenIDs: append(prompt(1+rng.IntN(20), 1), poison, 'a'+int32(rng.IntN(4)))}
	return req
}

// poisonedAfter returns that number.
func poisonedAfter(req *infer.Request) int { return after(req.Prompts[0].TokenIDs) }

func after(prompt []int32) int { return int(prompt[len(prompt)-1] - 'a') }

// isPoisoned reports whether a poisonous request kills a step.
func isPoisoned(plan *infer.StepPlan) bool {
	return slices.ContainsFunc(plan.Sequences, func(seq infer.ScheduledSequence) bool {
		return seq.Sample && slices.Contains(seq.PromptTokenIDs, poison) && len(seq.OutputTokenIDs) >= after(seq.PromptTokenIDs)
	})
}

// chaos fails steps at random. It spares a sequence that has had two failures all
// to itself since its last token: with a third one it would look like poison.
type chaos struct {
	rng  *rand.Rand
	odds int // one in so many steps fails
	lone map[infer.SeqID]loneFailures
}

type loneFailures struct{ tokens, count int }

func newChaos(rng *rand.Rand) *chaos {
	return &chaos{rng: rng, odds: 2 + rng.IntN(12), lone: map[infer.SeqID]loneFailures{}}
}

// ask is called with the cluster's lock held.
func (h *chaos) ask(_ int, plan *infer.StepPlan) error {
	if !isPoisoned(plan) && (h.isDone(plan) || h.rng.IntN(h.odds) > 0) {
		return nil
	}
	if seq := &plan.Sequences[0]; len(plan.Sequences) == 1 {
		l := h.lone[seq.SeqID]
		if l.tokens != numOutput(seq) {
			l.count = 0
		}
		h.lone[seq.SeqID] = loneFailures{tokens: numOutput(seq), count: l.count + 1}
	}
	fault := faults(h.rng)
	if stall, ok := fault.(testkit.Stall); ok {
		until := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(until) })
		stall.Until = until
		return stall
	}
	return fault
}

// isDone reports whether the only sequence of a plan has had its failures.
func (h *chaos) isDone(plan *infer.StepPlan) bool {
	seq := &plan.Sequences[0]
	l := h.lone[seq.SeqID]
	return len(plan.Sequences) == 1 && l.tokens == numOutput(seq) && l.count >= 2
}

// numOutput returns how many tokens a sequence has; drafts are none yet.
func numOutput(seq *infer.ScheduledSequence) int {
	return len(seq.OutputTokenIDs) - seq.NumDraftTokens
}
