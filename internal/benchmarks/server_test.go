package benchmarks_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
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
// measured is everything but the model.
type nullRunner struct{ spec infer.RunnerSpec }

func (r *nullRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	res := &infer.StepResult{StepID: plan.StepID, Sequences: make([]infer.SequenceResult, len(plan.Sequences))}
	ids := make([]int32, len(plan.Sequences))
	for i := range plan.Sequences {
		if s := &plan.Sequences[i]; s.Sample {
			ids[i] = int32(64 + len(s.OutputTokenIDs)%26)
			res.Sequences[i].NewTokenIDs = ids[i : i+1 : i+1]
		}
	}
	done(res, nil)
}

func (r *nullRunner) Spec() infer.RunnerSpec { return r.spec }
func (r *nullRunner) Close() error           { return nil }

// gcPercent is what the troupe command sets.
const gcPercent = 200

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}

// startServer serves the null runner on a loopback port and returns its address.
func startServer(b *testing.B, perRequestMetrics bool) string {
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

	registry := prometheus.NewRegistry()
	const maxSeqs, maxLen = 1024, 1024
	engine, err := actors.NewEngine(actors.Config{
		Tokenizer: tok, Template: template,
		NewRunner: func(int) (infer.Runner, error) {
			return &nullRunner{infer.RunnerSpec{NumBlocks: maxSeqs * maxLen / 16, BlockSize: 16, VocabSize: tok.VocabSize(), MaxModelLen: maxLen}}, nil
		},
		Scheduler: scheduler.Config{MaxNumSeqs: maxSeqs, MaxNumBatchedTokens: 8192, MaxModelLen: maxLen,
			EnableChunkedPrefill: true, EnablePrefixCaching: true},
		Model:             infer.ModelInfo{ServedNames: []string{"understudy"}, MaxModelLen: maxLen, VocabSize: tok.VocabSize()},
		EOSTokenIDs:       []int32{2043},
		Metrics:           []*metrics.Engine{metrics.NewEngine(registry, metrics.EngineOptions{ModelName: "understudy", Engine: "0", MaxModelLen: maxLen})},
		PerRequestMetrics: perRequestMetrics, MaxLogprobs: 20,
	})
	require.NoError(b, err)
	server, err := http.New(http.Options{Generator: engine, HTTPMetrics: metrics.NewHTTP(registry), Gatherer: registry,
		PerRequestMetrics: perRequestMetrics, MaxLogprobs: 20})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = server.Serve(ln) }()
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		_ = engine.Close()
	})
	return ln.Addr().String()
}

// load is what every client sends and what the run gave.
type load struct {
	streams, tokens int
}

func (l load) request() string {
	body := fmt.Sprintf(`{"model":"understudy","messages":[{"role":"user","content":"Go on."}],"max_tokens":%d,"ignore_eos":true,`+
		`"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, l.tokens)
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// outcome of one run of a load.
type outcome struct {
	tokensPerSecond float64
	gapP99          time.Duration // between two reads of one stream
}

// run opens the streams over conns and reads each to its end.
func (l load) run(b *testing.B, conns []net.Conn) outcome {
	b.Helper()
	request := l.request()
	gaps := make([][]time.Duration, len(conns))
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	start := time.Now()
	for i, c := range conns {
		wg.Go(func() { gaps[i], errs[i] = readStream(c, request, l.tokens) })
	}
	wg.Wait()
	wall := time.Since(start)
	for _, err := range errs {
		require.NoError(b, err)
	}
	all := slices.Concat(gaps...)
	slices.Sort(all)
	return outcome{float64(l.streams*l.tokens) / wall.Seconds(), all[len(all)*99/100]}
}

var readBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readStream sends a request and reads up to the last chunk of the answer.
func readStream(c net.Conn, request string, tokens int) ([]time.Duration, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	gaps := make([]time.Duration, 0, tokens)
	buf := readBuffers.Get().(*[64 << 10]byte)
	defer readBuffers.Put(buf)
	var tail []byte
	var last time.Time
	for {
		n, err := c.Read(buf[:])
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if !last.IsZero() {
			gaps = append(gaps, now.Sub(last))
		}
		last = now
		tail = append(tail, buf[max(0, n-64):n]...)
		tail = tail[max(0, len(tail)-64):]
		if bytes.HasSuffix(tail, []byte("\r\n0\r\n\r\n")) {
			return gaps, nil
		}
	}
}

// dial opens one keep-alive connection per stream.
func dial(b *testing.B, addr string, n int) []net.Conn {
	b.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		conns[i] = c
		b.Cleanup(func() { _ = c.Close() })
	}
	return conns
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
