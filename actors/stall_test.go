package actors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// bubble runs a test in which time passes only while everybody waits, so that a
// step counts as stalled only if it is.
func bubble(t *testing.T, f func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(time.Minute) }) // the actor system's own timers run out
		f(t)
	})
}

// bubbleClock reads the time of a bubble.
func bubbleClock(c *actors.Config) {
	start := time.Now().Add(-1)
	c.Clock = func() int64 { return int64(time.Since(start)) }
}

func TestStallAtEveryStep(t *testing.T) { bubble(t, testStallAtEveryStep) }

func testStallAtEveryStep(t *testing.T) {
	quiet, _, _ := simulated(t)
	s := &script{}
	d := testkit.NewDevice(testkit.DeviceOptions{NumBlocks: 32, Fault: s.ask})
	e := startEngine(t, d, func(c *actors.Config) {
		bubbleClock(c)
		c.StepTimeout = time.Second
	})
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		requests := randomRequests(rng, 4)
		want := runAll(t, quiet, requests, nil)
		for k, reached := 1, true; reached; k++ {
			reached = false
			s.play(d, func(step int, _ *infer.StepPlan) error {
				if step != k {
					return nil
				}
				reached = true
				return testkit.Stall{InLaunch: k%2 == 0}
			})
			for i, got := range runAll(t, e, requests, nil) {
				requireSame(t, want[i], got, fmt.Sprintf("seed %d, stall at step %d, request %d", seed, k, i))
			}
			d.Release()
			synctest.Wait()
		}
	}
}

// A device that hangs while it is opened does not keep an engine from closing.
func TestCloseDoesNotWaitForAnOpening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		proceed := make(chan struct{})
		d := testkit.NewDevice(testkit.DeviceOptions{
			Fault: func(step int, _ *infer.StepPlan) error { return errors.New("device lost") },
			OpenFault: func(attempt int) error {
				if attempt > 1 {
					<-proceed
				}
				return nil
			},
		})
		c := actors.Config{Tokenizer: testkit.Tokenizer(), NewRunner: d.NewRunner, Scheduler: testkit.SchedulerConfig(),
			Model: testkit.Model(), StepTimeout: time.Minute}
		bubbleClock(&c)
		e, err := actors.NewEngine(c)
		require.NoError(t, err)
		requireError(t, generate(t, e, endless(4)).final.Err, infer.CodeUnavailable, "No inference device")
		require.ErrorIs(t, e.Close(), actors.ErrDeviceAbandoned)
		close(proceed)
		synctest.Wait()
		require.NoError(t, d.Check())
		require.Nil(t, d.Runner(), "what was opened too late is closed")
	})
}

// Neither a step that never ends nor a Launch that never returns keeps an engine
// from closing.
func TestCloseDoesNotWaitForAStall(t *testing.T) {
	for _, inLaunch := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d := testkit.NewDevice(testkit.DeviceOptions{Fault: func(int, *infer.StepPlan) error {
				return testkit.Stall{InLaunch: inLaunch}
			}})
			c := actors.Config{Tokenizer: testkit.Tokenizer(), NewRunner: d.NewRunner, Scheduler: testkit.SchedulerConfig(),
				Model: testkit.Model(), StepTimeout: time.Minute}
			bubbleClock(&c)
			e, err := actors.NewEngine(c)
			require.NoError(t, err)
			a := generate(t, e, endless(4))
			requireError(t, a.final.Err, infer.CodeUnavailable, "failed again and again for more than 30s")
			s, err := e.Generate(t.Context(), endless(4))
			require.NoError(t, err)
			synctest.Wait()
			require.ErrorIs(t, e.Close(), actors.ErrDeviceAbandoned)
			_, err = read(s)
			require.NoError(t, err)
			d.Release()
			synctest.Wait()
			require.NoError(t, d.Check())
		})
	}
}
