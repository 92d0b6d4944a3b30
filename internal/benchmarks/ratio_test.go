package benchmarks_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
)

// rounds is the number of interleaved pairs of one comparison.
const rounds = 9

// compare runs the load on two servers in turns and reports medians and the
// median of the pairwise ratios, first over second.
func compare(b *testing.B, l load, first, second string) {
	b.Helper()
	connsA, connsB := dial(b, first, l.streams), dial(b, second, l.streams)
	l.run(b, connsA)
	l.run(b, connsB)
	var ratios, gapRatios, a, c []float64
	for i := range rounds * b.N {
		var x, y outcome
		if i%2 == 0 { // neither side always goes first
			x, y = l.run(b, connsA), l.run(b, connsB)
		} else {
			y = l.run(b, connsB)
			x = l.run(b, connsA)
		}
		a, c = append(a, x.tokensPerSecond), append(c, y.tokensPerSecond)
		ratios = append(ratios, x.tokensPerSecond/y.tokensPerSecond)
		gapRatios = append(gapRatios, float64(x.gapP99)/float64(y.gapP99))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(gapRatios), "p99-gap-ratio")
	b.ReportMetric(median(a), "first-tok/s")
	b.ReportMetric(median(c), "second-tok/s")
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkMetricsOnAgainstOff: what --enable-per-request-metrics costs in
// throughput; the model costs nothing. Goal: ratio >= 0.99.
func BenchmarkMetricsOnAgainstOff(b *testing.B) {
	for _, streams := range []int{256, 1024} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			compare(b, load{streams: streams, tokens: 256}, startServer(b, true), startServer(b, false))
		})
	}
}

// BenchmarkServerAgainstBareFiber: the whole server with a model that costs
// nothing, against a fiber loop that writes the same chunks, one flush each, and
// does nothing else. Goal: ratio >= 0.6.
func BenchmarkServerAgainstBareFiber(b *testing.B) {
	for _, streams := range []int{64, 256} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			l := load{streams: streams, tokens: 768}
			server := startServer(b, true)
			compare(b, l, server, startBareFiber(b, chunksOf(b, server, l)))
		})
	}
}

// startBareFiber serves the same chunks to everybody.
func startBareFiber(b *testing.B, chunks []string) string {
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
	b.Cleanup(func() { _ = app.Shutdown() })
	return ln.Addr().String()
}
