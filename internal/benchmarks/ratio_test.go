package benchmarks_test

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
)

// withMetrics is the server with such metrics.
func withMetrics(on metricsOn) side {
	return func(b *testing.B) (string, func()) { return startServer(b, on) }
}

const onOffRounds = 30

// BenchmarkMetricsOnAgainstOff: what --enable-per-request-metrics costs; the
// model costs nothing. Goals: throughput ratio >= 0.99, p99 gap ratio < 1.05.
//
// A round measures on, on, off, off in random order. The ratio of the two kinds
// is the effect; the ratio of the firsts of both kinds to the seconds is made of
// equal sides, and so shows what the benchmark cannot tell from nothing.
func BenchmarkMetricsOnAgainstOff(b *testing.B) {
	for _, streams := range []int{256, 1024} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { compareMetrics(b, streams, fiveValues) })
	}
}

// BenchmarkEverythingOnAgainstOff: the same for metrics of every kind: with the
// breakdown, those of each choice, all spellings, and what becomes of drafts. Goal:
// throughput ratio >= 0.98.
func BenchmarkEverythingOnAgainstOff(b *testing.B) {
	const streams = 256
	b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { compareMetrics(b, streams, everything) })
}

func compareMetrics(b *testing.B, streams int, on metricsOn) {
	l := load{streams: streams, requests: 2048 / streams, tokens: 128}
	quantities := []struct {
		name string
		of   func(sample) float64
	}{
		{"tokens/s", func(s sample) float64 { return s.perSecond }},
		{"CPU/token", func(s sample) float64 { return s.cpu }},
		{"p99 gap", func(s sample) float64 { return s.gapP99 }},
		{"B/token", func(s sample) float64 { return s.allocated }},
	}
	effects, controls := make([]series, len(quantities)), make([]series, len(quantities))
	for range onOffRounds * b.N {
		s := shuffled(b, l, withMetrics(on), withMetrics(on), withMetrics(noMetrics), withMetrics(noMetrics))
		for i, q := range quantities {
			on1, on2, off1, off2 := q.of(s[0]), q.of(s[1]), q.of(s[2]), q.of(s[3])
			effects[i] = append(effects[i], math.Sqrt(on1*on2/(off1*off2)))
			controls[i] = append(controls[i], math.Sqrt(on1*off1/(on2*off2)))
		}
	}
	for i, q := range quantities {
		b.Logf("%-9s on/off %v, same/same %v", q.name, effects[i], controls[i])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(effects[0].median(), "tok/s-ratio")
	b.ReportMetric(effects[1].median(), "cpu-ratio")
	b.ReportMetric(effects[2].median(), "p99-gap-ratio")
	b.ReportMetric(effects[3].median(), "allocated-ratio")
}

// rounds is how often a comparison of coarser grain is repeated.
const rounds = 9

// BenchmarkServerAgainstBareFiber: the whole server with a model that costs
// nothing, against a fiber loop that writes the same chunks, one flush each, and
// does nothing else. Goal: ratio >= 0.6.
func BenchmarkServerAgainstBareFiber(b *testing.B) {
	for _, streams := range []int{64, 256} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			l := load{streams: streams, requests: 512 / streams, tokens: 768}
			server := withMetrics(fiveValues)
			addr, stop := server(b)
			chunks := chunksOf(b, addr, l)
			stop()
			bare := func(b *testing.B) (string, func()) { return startBareFiber(b, chunks) }
			var wall, cpu, cpuServer, cpuBare, bytes, allocated series
			for range rounds * b.N {
				s := shuffled(b, l, server, bare)
				wall = append(wall, s[0].perSecond/s[1].perSecond)
				cpu = append(cpu, s[1].cpu/s[0].cpu)
				cpuServer, cpuBare = append(cpuServer, s[0].cpu*1e9), append(cpuBare, s[1].cpu*1e9)
				bytes, allocated = append(bytes, s[0].bytes/s[1].bytes), append(allocated, s[0].allocated)
			}
			b.Logf("tokens/s server/bare %v; CPU/token bare/server %v", wall, cpu)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(wall.median(), "tok/s-ratio")
			b.ReportMetric(cpu.median(), "cpu-ratio")
			b.ReportMetric(cpuServer.median(), "server-cpu-ns/token")
			b.ReportMetric(cpuBare.median(), "bare-cpu-ns/token")
			b.ReportMetric(bytes.median(), "bytes-ratio")
			b.ReportMetric(allocated.median(), "server-B/token")
		})
	}
}

// startBareFiber serves the same chunks to everybody.
func startBareFiber(b *testing.B, chunks []string) (addr string, stop func()) {
	b.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true, StreamRequestBody: true})
	app.Post("/v1/chat/completions", func(c *fiber.Ctx) error {
		c.Set("Content-Type", "text/event-stream")
		c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
			for _, chunk := range chunks {
				_, _ = w.WriteString(chunk)
				if w.Flush() != nil {
					return
				}
			}
		})
		return nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = app.Listener(ln) }()
	return ln.Addr().String(), func() { _ = app.Shutdown() }
}
