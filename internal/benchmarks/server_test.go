package benchmarks_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// nullRunner gives every sequence the next letter at no cost, so that what is
// measured is everything but the model. All share the letters, which nobody writes to.
type nullRunner struct {
	spec   infer.RunnerSpec
	pace   time.Duration    // from the launch of a step to its end; 0 = none
	result infer.StepResult // of the last step; its memory is used again
}

var letters = func() (ids [26]int32) {
	for i := range ids {
		ids[i] = int32(64 + i)
	}
	return ids
}()

func (r *nullRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	n, res := len(plan.Sequences), &r.result
	clear(res.Sequences)
	res.StepID, res.Sequences = plan.StepID, slices.Grow(res.Sequences[:0], n)[:n]
	for i := range plan.Sequences {
		if s := &plan.Sequences[i]; s.Sample {
			k := len(s.OutputTokenIDs) % len(letters)
			res.Sequences[i].NewTokenIDs = letters[k : k+1 : k+1]
		}
	}
	if r.pace == 0 {
		done(res, nil)
		return
	}
	time.AfterFunc(r.pace, func() { done(res, nil) })
}

func (r *nullRunner) Spec() infer.RunnerSpec { return r.spec }
func (r *nullRunner) Close() error           { return nil }

// gcPercent is what the troupe command sets.
const gcPercent = 200

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}

// metricsOn says what a server measures for its clients.
type metricsOn int

const (
	noMetrics  metricsOn = iota
	fiveValues           // --enable-per-request-metrics
	everything           // and all that can be added to them
)

// serverOptions are what servers of the null runner differ in.
type serverOptions struct {
	metrics metricsOn
	pace    time.Duration // as in nullRunner
}

// startServer serves the null runner on a loopback port and returns its address.
func startServer(b *testing.B, o serverOptions) (addr string, stop func()) {
	b.Helper()
	folder := understudy.Embedded()
	file := func(name string) []byte {
		raw, err := folder.File(name)
		require.NoError(b, err)
		return raw
	}
	cfg, err := tokenizer.ParseConfig(file("tokenizer_config.json"))
	require.NoError(b, err)
	tok, err := tokenizer.New(file("tokenizer.json"), cfg)
	require.NoError(b, err)
	template, err := chat.Parse(cfg.ChatTemplate, chat.Options{EOSToken: cfg.EOSToken})
	require.NoError(b, err)

	specLevel := metrics.SpecNone
	if o.metrics == everything { // the null runner has no drafts: what is kept is empty, but kept
		specLevel = metrics.SpecDetailed
	}
	registry := prometheus.NewRegistry()
	const maxSeqs, maxLen = 1024, 1024
	engine, err := actors.NewEngine(actors.Config{
		Tokenizer: tok, Template: template,
		NewRunner: func(int) (infer.Runner, error) {
			return &nullRunner{pace: o.pace, spec: infer.RunnerSpec{NumBlocks: maxSeqs * maxLen / 16, BlockSize: 16, VocabSize: tok.VocabSize(), MaxModelLen: maxLen}}, nil
		},
		Scheduler: scheduler.Config{MaxNumSeqs: maxSeqs, MaxNumBatchedTokens: 8192, MaxModelLen: maxLen,
			EnableChunkedPrefill: true, EnablePrefixCaching: true},
		Model:             infer.ModelInfo{ServedNames: []string{"understudy"}, MaxModelLen: maxLen, VocabSize: tok.VocabSize()},
		EOSTokenIDs:       []int32{2043},
		Metrics:           []*metrics.Engine{metrics.NewEngine(registry, metrics.EngineOptions{ModelName: "understudy", Engine: "0", MaxModelLen: maxLen})},
		PerRequestMetrics: o.metrics != noMetrics, PerChoiceMetrics: o.metrics == everything, MetricsBreakdown: o.metrics == everything,
		SpecLevel: specLevel, MaxLogprobs: 20,
	})
	require.NoError(b, err)
	server, err := http.New(http.Options{Generator: engine, HTTPMetrics: metrics.NewHTTP(registry), Gatherer: registry,
		PerRequestMetrics: o.metrics != noMetrics, PerChoiceMetrics: o.metrics == everything, SpecDecodeMetrics: o.metrics == everything,
		LlamaServerTimings: o.metrics == everything, GroqUsageTimes: o.metrics == everything, MaxLogprobs: 20})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = server.Serve(ln) }()
	return ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		_ = engine.Close()
	}
}

// load is what every client sends: so many requests after each other.
type load struct {
	streams, requests, tokens int
}

func (l load) request() string {
	body := fmt.Sprintf(`{"model":"understudy","messages":[{"role":"user","content":"Go on."}],"max_tokens":%d,"ignore_eos":true,`+
		`"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, l.tokens)
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// run opens the streams over conns and reads each to its end.
func (l load) run(b *testing.B, conns []net.Conn) sample {
	b.Helper()
	request := l.request()
	gaps := make([][]time.Duration, len(conns))
	for i := range gaps {
		gaps[i] = make([]time.Duration, 0, l.requests*l.tokens)
	}
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	var numBytes atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuSeconds(b), time.Now()
	for i, c := range conns {
		wg.Go(func() {
			for range l.requests {
				var n int
				n, gaps[i], errs[i] = readStream(c, request, gaps[i])
				numBytes.Add(int64(n))
				if errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	wall := time.Since(start)
	cpu = cpuSeconds(b) - cpu
	runtime.ReadMemStats(&after)
	for _, err := range errs {
		require.NoError(b, err)
	}
	all := slices.Concat(gaps...)
	slices.Sort(all)
	if len(all) == 0 {
		all = []time.Duration{0} // every answer came in one read
	}
	numTokens := float64(l.streams * l.requests * l.tokens)
	return sample{
		perSecond: numTokens / wall.Seconds(), cpu: cpu / numTokens,
		gapP99: all[len(all)*99/100].Seconds(), bytes: float64(numBytes.Load()) / numTokens,
		allocated: float64(after.TotalAlloc-before.TotalAlloc) / numTokens,
	}
}

var readBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readStream sends a request, reads up to the last chunk of the answer, counts its
// bytes and appends the times between two reads.
func readStream(c net.Conn, request string, gaps []time.Duration) (numBytes int, _ []time.Duration, _ error) {
	if _, err := io.WriteString(c, request); err != nil {
		return 0, nil, err
	}
	buf := readBuffers.Get().(*[64 << 10]byte)
	defer readBuffers.Put(buf)
	var end [64]byte
	tail := end[:0]
	var last time.Time
	for {
		n, err := c.Read(buf[:])
		if err != nil {
			return numBytes, nil, err
		}
		numBytes += n
		now := time.Now()
		if !last.IsZero() {
			gaps = append(gaps, now.Sub(last))
		}
		last = now
		tail = append(tail, buf[max(0, n-len(lastChunk)):n]...)
		tail = end[:copy(end[:], tail[max(0, len(tail)-len(lastChunk)):])]
		if string(tail) == lastChunk {
			return numBytes, gaps, nil
		}
	}
}

// lastChunk ends every answer.
const lastChunk = "\r\n0\r\n\r\n"

// dial opens one keep-alive connection per stream.
func dial(b *testing.B, addr string, n int) []net.Conn {
	b.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		conns[i] = c
	}
	return conns
}

func hangUp(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// chunksOf records one answer of a server as its SSE chunks.
func chunksOf(b *testing.B, addr string, l load) []string {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer c.Close()
	_, err = io.WriteString(c, strings.Replace(l.request(), "Host: bench\r\n", "Host: bench\r\nConnection: close\r\n", 1))
	require.NoError(b, err)
	var chunks []string
	for sc := bufio.NewScanner(c); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "data: ") {
			chunks = append(chunks, sc.Text()+"\n\n")
		}
	}
	require.GreaterOrEqual(b, len(chunks), l.tokens)
	return chunks
}
