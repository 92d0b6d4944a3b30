//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// dark sends a request and returns the time that belongs to no field, beyond five percent, in ms.
func (s *server) dark(req obj) float64 {
	o, r := s.chat(req)
	wall := r.Wall.Seconds() * 1000
	return wall - readTimes(s.t, o).total() - wall*0.05
}

// onceIn checks a limit of time, which holds on an idle machine: on a busy one it
// may take some tries.
func onceIn(t *testing.T, tries int, holds func() bool, what string) {
	t.Helper()
	for range tries {
		if holds() {
			return
		}
	}
	require.Fail(t, "never in "+strconv.Itoa(tries)+" tries: "+what)
}

// TestO05NoDarkTime: a long prompt cold, warm, and eight at a time; with slots for
// all, and with one, where the wait belongs to the queue.
func TestO05NoDarkTime(t *testing.T) {
	dir := roomy(t)
	for _, slots := range []string{"8", "1"} {
		s := serve(t, dir, "--served-model-name", "understudy", "--enable-per-request-metrics", "--max-num-seqs", slots)
		req := obj{"model": "understudy", "messages": user(strings.Repeat("word ", 1500)), "max_tokens": 4, "temperature": 0}
		var cold, warm, most []float64
		for i := range 3 {
			req["cache_salt"] = []string{"a", "b", "c"}[i] // cold again
			cold = append(cold, s.dark(req))
			warm = append(warm, s.dark(req))
			var all sync.WaitGroup
			gaps := make([]float64, 8)
			for j := range gaps {
				all.Go(func() { gaps[j] = s.dark(req) })
			}
			all.Wait()
			most = append(most, slices.Max(gaps))
		}
		for what, gaps := range map[string][]float64{"cold": cold, "warm": warm, "the worst of eight at once": most} {
			slices.Sort(gaps)
			require.Less(t, gaps[1], 50.0, "%s slots, %s: ms that belong to no field, median of three", slots, what)
		}
	}
}

func TestO12PromptTimeIsNotDecodeTime(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--no-enable-prefix-caching")
	req := func(text string) obj {
		return obj{"model": "understudy", "messages": user(text), "max_tokens": 32, "temperature": 0, "ignore_eos": true}
	}
	// Three tokens to a word: with the template and the answer this is all but four
	// positions of the context. Pairs of neighbours in time share the machine's moods.
	long, short := req(strings.Repeat("alpha ", 325)+"Say hello."), req("Say hello.")
	onceIn(t, 20, func() bool {
		var ratios, waits []float64
		for range 15 {
			o, _ := s.chat(long)
			require.EqualValues(t, 988, usage(o, "prompt_tokens"))
			after := readTimes(t, o)
			o, _ = s.chat(short)
			alone := readTimes(t, o)
			requireIdentities(t, after, 32)
			requireIdentities(t, alone, 32)
			ratios, waits = append(ratios, after.itl/alone.itl), append(waits, after.ttft/alone.ttft)
		}
		slices.Sort(ratios)
		slices.Sort(waits)
		require.Greater(t, waits[7], 2.0, "the long prompt's time to first token over the short one's")
		t.Logf("time per token after the long prompt over that after the short one: %.2f (median of 15 pairs)", ratios[7])
		return ratios[7] < 1.5
	}, "the long prompt's time per token is within 50 % of the short one's")

	// With one slot, a competitor's time lands in the queue and nowhere else.
	slot := serve(t, "--enable-per-request-metrics", "--max-num-seqs", "1")
	o, _ := slot.chat(short)
	alone := readTimes(t, o)
	started, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = slot.tryStream(context.Background(), "/v1/chat/completions", with(short, obj{"max_tokens": 500}), func(n int, _ obj) bool {
			if n == 2 {
				close(started)
			}
			return true
		})
	}()
	<-started
	o, _ = slot.chat(short)
	<-done
	waited := readTimes(t, o)
	require.Greater(t, waited.queue, 10*alone.ttft)
	require.Less(t, waited.ttft, waited.queue/2)
	require.Less(t, waited.itl, 3*alone.itl+1)
}
