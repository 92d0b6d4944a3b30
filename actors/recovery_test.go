package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

var errDevice = errors.New("device fault")

// TestTwoDeviceFaultsCostNobody: each of two batchers breaks once under the only
// stream there is, at every pair of steps.
func TestTwoDeviceFaultsCostNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2)
		close(c.gate)
		req := endless(6)
		want := generate(t, c.quiet, req)
		for first := 1; first <= 5; first++ {
			for second := 1; second <= 5; second++ {
				c.play(func(batcher int, _ *infer.StepPlan) error {
					if c.steps[batcher] == []int{first, second}[batcher] {
						return errDevice
					}
					return nil
				}, nil)
				requireSame(t, want, generate(t, c.engine, req), fmt.Sprint(first, second))
				c.settle()
			}
		}
	})
}

// runTogether runs requests of which none has got a token before all are there. A
// cluster does that once.
func (c *cluster) runTogether(requests []*infer.Request) (answers []*answer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		answers = runAll(c.t, c.engine, requests, nil)
	}()
	synctest.Wait()
	close(c.gate)
	<-done
	return answers
}

// TestManyStreamsSurviveManyFaults: ten faults under thirty streams, twenty steps apart
// (100 ms with the embedded model), or at ten steps in a row.
func TestManyStreamsSurviveManyFaults(t *testing.T) {
	for _, numBatchers := range []int{1, 2} {
		for _, apart := range []int{1, 20} {
			t.Run(fmt.Sprint(numBatchers, apart), func(t *testing.T) {
				bubble(t, func(t *testing.T) { testManyFaults(newCluster(t, numBatchers), apart) })
			})
		}
	}
}

func testManyFaults(c *cluster, apart int) {
	requests := make([]*infer.Request, 30)
	for i := range requests {
		requests[i] = endless(60)
		requests[i].Sampling.Seed = uint64(i)
	}
	want := runAll(c.t, c.quiet, requests, nil)
	steps, faults := 0, 0
	c.play(func(int, *infer.StepPlan) error {
		if steps++; faults == 10 || steps < 20 || steps%apart != 0 {
			return nil
		}
		faults++
		return errDevice
	}, nil)
	for i, got := range c.runTogether(requests) {
		requireSame(c.t, want[i], got, fmt.Sprint("request ", i))
	}
	require.Equal(c.t, 10, faults)
	c.settle()
}

// TestPoisonIsFoundOut: whoever kills its steps by itself is failed after a few of
// them, with or without company, before its first token or after some, and so are two
// at once. The others get what they always get.
func TestPoisonIsFoundOut(t *testing.T) {
	for _, tc := range []struct {
		name        string
		neighbours  int
		poisonAfter []int // tokens; one poisonous request each
		maxRestarts int
	}{
		{"newcomer", 4, []int{0}, 6},
		{"veteran", 4, []int{3}, 7},
		{"alone, newcomer", 0, []int{0}, 5},
		{"alone, veteran", 0, []int{3}, 5},
		{"two", 4, []int{0, 2}, 14},
		{"two alone", 0, []int{1, 1}, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 1)
				testPoison(c, tc.neighbours, tc.poisonAfter, tc.maxRestarts)
			})
		})
	}
}

func testPoison(c *cluster, neighbours int, poisonAfter []int, maxRestarts int) {
	var requests []*infer.Request
	for range neighbours {
		requests = append(requests, endless(20))
	}
	for _, n := range poisonAfter {
		req := endless(40)
		req.Prompts[0] = infer.Prompt{TokenIDs: append(prompt(9, 1), poison, 'a'+int32(n))}
		requests = append(requests, req)
	}
	want := runAll(c.t, c.quiet, requests, nil)
	c.play(func(_ int, plan *infer.StepPlan) error {
		if isPoisoned(plan) {
			return errDevice
		}
		return nil
	}, nil)
	for i, got := range c.runTogether(requests) {
		if i < neighbours {
			requireSame(c.t, want[i], got, fmt.Sprint("request ", i))
			continue
		}
		requireError(c.t, got.final.Err, infer.CodeEngineFault, "the engine failed")
		require.Equal(c.t, poisonAfter[i-neighbours], got.final.Usage.NumCompletionTokens)
		requirePrefix(c.t, want[i], got, "")
	}
	require.LessOrEqual(c.t, c.devices[0].NumOpened()-1, maxRestarts)
	c.settle()
}

// TestPoisonDoesNotStarveLongPrompts: a prompt of several chunks gets through between
// clients that send one poisonous request after the other.
func TestPoisonDoesNotStarveLongPrompts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1)
		close(c.gate)
		long := endless(4)
		long.Prompts[0] = infer.Prompt{TokenIDs: prompt(110, 2)}
		want := generate(t, c.quiet, long)
		c.play(func(_ int, plan *infer.StepPlan) error {
			if isPoisoned(plan) {
				return errDevice
			}
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					req := endless(4)
					req.Prompts[0] = infer.Prompt{TokenIDs: append(prompt(3, 1), poison, 'a')}
					s, err := c.engine.Generate(ctx, req)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := read(s); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 5 {
			requireSame(t, want, generate(t, c.engine, long), "long")
		}
		cancel()
		clients.Wait()
		c.settle()
	})
}

// TestBrokenDeviceIsAnOutage: a device that opens and then fails whatever it is given
// is nobody's fault. Requests end after the recovery timeout, those that come later too,
// and the device is not reopened all the time.
func TestBrokenDeviceIsAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1)
		close(c.gate)
		requests := []*infer.Request{endless(4), endless(4), endless(4), endless(4), endless(4)}
		c.play(func(int, *infer.StepPlan) error { return errDevice }, nil)
		start := time.Now()
		for _, got := range runAll(t, c.engine, requests, nil) {
			requireError(t, got.final.Err, infer.CodeUnavailable, "failed again and again for more than 30s")
		}
		require.Less(t, time.Since(start), 40*time.Second)
		require.Less(t, c.devices[0].NumOpened(), 50)
		c.settle()
		require.Nil(t, generate(t, c.engine, endless(4)).final.Err)
	})
}

// TestFaultsAtEveryStart: a fault at the first step of ten lives of the batcher in a
// row hits one sequence after the other, and so convicts none.
func TestFaultsAtEveryStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1)
		close(c.gate)
		requests := make([]*infer.Request, 12)
		for i := range requests {
			requests[i] = endless(20)
			requests[i].Sampling.Seed = uint64(i)
		}
		want := runAll(t, c.quiet, requests, nil)
		for begin := 1; begin <= 8; begin++ {
			lives, isFresh := 0, true
			c.play(func(int, *infer.StepPlan) error {
				if c.steps[0] < begin || !isFresh || lives == 10 {
					return nil
				}
				lives++
				isFresh = false
				return errDevice
			}, func() error {
				isFresh = true
				return nil
			})
			for i, got := range runAll(t, c.engine, requests, nil) {
				requireSame(t, want[i], got, fmt.Sprintf("from step %d on, request %d", begin, i))
			}
			c.settle()
			require.Equal(t, 10, lives)
		}
	})
}

// TestGaugesDuringAnOutage: nothing runs and nothing is held while no batcher lives.
func TestGaugesDuringAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var broken atomic.Bool
		d := testkit.NewDevice(testkit.DeviceOptions{
			Fault: func(step int, _ *infer.StepPlan) error {
				if step == 5 {
					broken.Store(true)
					return errDevice
				}
				return nil
			},
			OpenFault: func(int) error {
				if broken.Load() {
					return errDevice
				}
				return nil
			},
		})
		e := startEngine(t, d, func(c *actors.Config) {
			bubbleClock(c)
			c.Metrics = []*metrics.Engine{metrics.NewEngine(reg, metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})}
		})
		s, err := e.Generate(context.Background(), endless(8))
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, broken.Load())
		for _, name := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} {
			require.Zero(t, gauge(t, reg, name), name)
		}
		broken.Store(false)
		a, err := read(s)
		require.NoError(t, err)
		require.Nil(t, a.final.Err)
	})
}

// gauge sums a family's gauges.
func gauge(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetGauge().GetValue()
			}
			return sum
		}
	}
	require.Fail(t, "no such series", name)
	return 0
}
