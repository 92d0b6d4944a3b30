package benchmarks_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
)

// rounds is how often a comparison of coarser grain is repeated.
const rounds = 9

// BenchmarkServerAgainstBareFiber: the whole server with a model that costs
// nothing, against a fiber loop that writes the same chunks, one flush each, and
// does nothing else. Goal: ratio >= 0.6.
func BenchmarkServerAgainstBareFiber(b *testing.B) {
	for _, streams := range []int{64, 256} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			l := load{streams: streams, requests: 2048 / streams, tokens: 768} // a few collections of the heap each
			server := func(b *testing.B) (string, func()) { return startServer(b, serverOptions{metrics: fiveValues}) }
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
