package benchmarks_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var numWorlds = flag.Int("worlds", 2*rounds, "repetitions of the benchmarks of metrics on against off; the intervals narrow with its root")

// quantity is what is compared of two sides.
type quantity struct {
	name, unit string
	of         func(sample) float64
}

var (
	tokensPerSecond = quantity{"tokens/s", "tok/s-ratio", func(s sample) float64 { return s.perSecond }}
	cpuPerToken     = quantity{"CPU/token", "cpu-ratio", func(s sample) float64 { return s.cpu }}
	bytesPerToken   = quantity{"heap B/token", "heap-ratio", func(s sample) float64 { return s.allocated }}
	p99Gap          = quantity{"p99 gap", "p99-gap-ratio", func(s sample) float64 { return s.gapP99 }}
)

// BenchmarkMetricsOnAgainstOff: what --enable-per-request-metrics costs in
// throughput; the model costs nothing. Goal: tokens/s ratio >= 0.99.
func BenchmarkMetricsOnAgainstOff(b *testing.B) {
	for _, streams := range []int{256, 1024} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			onOff{on: fiveValues, load: throughputLoad(streams), rounds: throughputRounds}.compare(b, tokensPerSecond, cpuPerToken, bytesPerToken)
		})
	}
}

// BenchmarkEverythingOnAgainstOff: the same for metrics of every kind: with the
// breakdown, those of each choice, all spellings, and what becomes of drafts. Goal:
// throughput ratio >= 0.98.
func BenchmarkEverythingOnAgainstOff(b *testing.B) {
	const streams = 256
	b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
		onOff{on: everything, load: throughputLoad(streams), rounds: throughputRounds}.compare(b, tokensPerSecond, cpuPerToken, bytesPerToken)
	})
}

const throughputRounds = 6

func throughputLoad(streams int) load {
	return load{streams: streams, requests: max(1024/streams, 2), tokens: 128}
}

// BenchmarkMetricsGap: what they cost a reader in evenness, where the model takes
// its time and the server is not at its limit: at the limit, the gaps are those of
// whoever waits for a processor. Goal: p99 gap ratio < 1.05.
func BenchmarkMetricsGap(b *testing.B) {
	for _, streams := range []int{256, 1024} {
		pace := time.Duration(streams) * time.Second / pacedTokensPerSecond
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			c := onOff{on: fiveValues, load: load{streams: streams, requests: 2, tokens: int(640 * time.Millisecond / pace)}, pace: pace, rounds: 1}
			c.compare(b, p99Gap)
		})
	}
}

// pacedTokensPerSecond is what all streams get together: about half of what a
// server on one core can write one by one.
const pacedTokensPerSecond = 25_600

// onOff compares servers with metrics on and off.
//
// A world is two servers of each kind that live at once. A round measures a block
// of each in random order, with the heap collected before and not during it: a
// block in which a collection falls takes a tenth longer, and whether one does is
// chance. What garbage costs later is in the heap's bytes. The ratio of the two
// kinds is the effect; that of the firsts of both kinds to the seconds is made of
// equal sides, and so shows what the benchmark cannot tell from nothing. A world's
// value is the median over its rounds; what its servers' places in memory did to
// it differs from world to world, and so is in the interval, which is over worlds.
type onOff struct {
	on     metricsOn
	load   load
	pace   time.Duration
	rounds int
}

const numOn, numSides = 2, 4 // sides 0 and 1 are on

func (o onOff) compare(b *testing.B, quantities ...quantity) {
	effects, controls := make([]series, len(quantities)), make([]series, len(quantities))
	for range *numWorlds * b.N {
		samples := o.world(b)
		for i, q := range quantities {
			var effect, control series
			for _, s := range samples {
				on1, on2, off1, off2 := q.of(s[0]), q.of(s[1]), q.of(s[2]), q.of(s[3])
				effect = append(effect, math.Sqrt(on1*on2/(off1*off2)))
				control = append(control, math.Sqrt(on1*off1/(on2*off2)))
			}
			effects[i], controls[i] = append(effects[i], effect.median()), append(controls[i], control.median())
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, q := range quantities {
		b.Logf("%-12s on/off %v, same/same %v", q.name, effects[i], controls[i])
		b.ReportMetric(effects[i].median(), q.unit)
	}
}

// world returns what each round of a world gave.
func (o onOff) world(b *testing.B) [][numSides]sample {
	var conns [numSides][]net.Conn
	for _, i := range rand.Perm(numSides) {
		server := serverOptions{pace: o.pace}
		if i < numOn {
			server.metrics = o.on
		}
		addr, stop := startServer(b, server)
		defer stop()
		conns[i] = dial(b, addr, o.load.streams)
		defer hangUp(conns[i])
		warm := o.load
		warm.requests = 1
		warm.run(b, conns[i])
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	samples := make([][numSides]sample, o.rounds)
	for k := range samples {
		for _, i := range rand.Perm(numSides) {
			runtime.GC()
			samples[k][i] = o.load.run(b, conns[i])
		}
	}
	return samples
}
