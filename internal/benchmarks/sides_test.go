package benchmarks_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// side is one of the things that are compared: it starts a server and returns
// its address and what ends it.
type side func(b *testing.B) (addr string, stop func())

// sample is what one block of a side gave.
type sample struct {
	perSecond float64 // tokens, by the wall clock
	cpu       float64 // seconds of this process's user and system time per token, clients included
	gapP99    float64 // seconds between two reads of one stream
	bytes     float64 // read by the clients, per token
	allocated float64 // bytes of heap, per token, clients included
}

// block measures a side on a server of its own, warmed, with the heap settled. A
// server that lives through the whole run would bring the luck of its place in
// memory into every block alike, and no number of repetitions would tell.
func block(b *testing.B, l load, start side) sample {
	b.Helper()
	addr, stop := start(b)
	defer stop()
	conns := dial(b, addr, l.streams)
	defer hangUp(conns)
	warm := l
	warm.requests = 1
	warm.run(b, conns)
	runtime.GC()
	return l.run(b, conns)
}

func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// series are the ratios of one quantity, one per round.
type series []float64

func (s series) sorted() series {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func (s series) median() float64 { return median(s) }

func median(v []float64) float64 {
	v = series(v).sorted()
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// interval returns where the median lies with at least 95 % certainty, whatever
// the distribution: the sign test's interval.
func (s series) interval() (low, high float64) {
	v := s.sorted()
	n := len(v)
	tail, k := math.Pow(0.5, float64(n)), 0 // tail = P(at most k of n are below the median)
	for p := tail; ; {
		p *= float64(n-k) / float64(k+1)
		if tail+p > 0.025 {
			break
		}
		tail += p
		k++
	}
	return v[k], v[n-1-k]
}

func (s series) String() string {
	low, high := s.interval()
	return fmt.Sprintf("%.3f [%.3f, %.3f]", s.median(), low, high)
}

// shuffled measures every side once, in random order.
func shuffled(b *testing.B, l load, sides ...side) []sample {
	b.Helper()
	samples := make([]sample, len(sides))
	for _, i := range rand.Perm(len(sides)) {
		samples[i] = block(b, l, sides[i])
	}
	return samples
}
