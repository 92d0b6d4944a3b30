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
	onceIn(t, 10, func() bool {
		var itl, ttft [2][]float64
		for range 9 {
			for i, text := range []string{strings.Repeat("alpha ", 300) + "Say hello.", "Say hello."} {
				o, _ := s.chat(req(text))
				m := readTimes(t, o)
				itl[i], ttft[i] = append(itl[i], m.itl), append(ttft[i], m.ttft)
				requireIdentities(t, m, 32)
			}
		}
		for i := range 2 {
			slices.Sort(itl[i])
			slices.Sort(ttft[i])
		}
		t.Logf("time per token: %.3f ms after the long prompt, %.3f ms after the short one (medians of nine)", itl[0][4], itl[1][4])
		require.Greater(t, ttft[0][4], 2*ttft[1][4], "the long prompt's time to first token")
		return itl[0][4] < 2*itl[1][4]
	}, "the long prompt's time per token is like the short one's")

	// With one slot, a competitor's time lands in the queue and nowhere else.
	slot := serve(t, "--enable-per-request-metrics", "--max-num-seqs", "1")
	short := req("Say hello.")
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
