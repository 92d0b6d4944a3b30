package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// fake is a server that answers with max_tokens pieces and bills three tokens
// per two words.
type fake struct {
	mu       sync.Mutex
	prompts  []string
	paths    map[string]int
	inFlight atomic.Int32
	peak     atomic.Int32
	status   func(n int) int // of the n-th request; nil = 200
	hold     chan struct{}   // not nil: every request waits for it or its client
	arrived  chan struct{}   // with hold: one value per request that waits
	trailer  string          // metrics of the last chunk
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := f.inFlight.Add(1)
	defer f.inFlight.Add(-1)
	for p := f.peak.Load(); now > p && !f.peak.CompareAndSwap(p, now); p = f.peak.Load() {
	}
	var body struct {
		Prompt    string
		Messages  []struct{ Content string }
		MaxTokens int  `json:"max_tokens"`
		IgnoreEOS bool `json:"ignore_eos"`
	}
	b, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(b, &body)
	prompt := body.Prompt
	if len(body.Messages) > 0 {
		prompt = body.Messages[0].Content
	}
	f.mu.Lock()
	f.prompts = append(f.prompts, prompt)
	f.paths[r.URL.Path]++
	n := len(f.prompts)
	f.mu.Unlock()
	if f.hold != nil {
		f.arrived <- struct{}{}
		select {
		case <-f.hold:
		case <-r.Context().Done():
			return
		}
	}
	if f.status != nil && f.status(n) != 200 {
		w.WriteHeader(f.status(n))
		return
	}
	for range body.MaxTokens {
		fmt.Fprint(w, `data: {"choices":[{"index":0,"text":"x","delta":{"content":""}}]}`+"\n\n")
	}
	fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}%s}`+"\n\ndata: [DONE]\n\n",
		len(strings.Fields(prompt))*3/2, body.MaxTokens, f.trailer)
}

func start(t *testing.T, f *fake) Options {
	t.Helper()
	f.paths = map[string]int{}
	f.arrived = make(chan struct{}, 1000)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return Options{
		Client: &client.Client{HTTP: s.Client(), BaseURL: s.URL}, Model: "m", Endpoint: "chat",
		NumRequests: 20, Concurrency: 4, Warmup: 2, Timeout: time.Minute, PromptTokens: 90, OutputTokens: 5, IgnoreEOS: true, Seed: 7,
	}
}

func TestRunAtConcurrency(t *testing.T) {
	f := &fake{}
	o := start(t, f)
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 20, r.NumOK)
	require.Zero(t, r.NumFailed)
	require.Equal(t, 100, r.OutputTokens)
	require.Equal(t, 20*90, r.PromptTokens, "prompts are scaled to what the warm-up was billed")
	require.Equal(t, 20, r.TTFTMs.Count)
	require.Equal(t, 20*4, r.ITLMs.Count)
	require.Equal(t, 20, r.TPOTMs.Count)
	require.Nil(t, r.ServerMetrics)
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "The server sent no metrics to compare with: start it with --enable-per-request-metrics.")
	require.Equal(t, map[string]int{client.PathChat: 22}, f.paths)
	require.LessOrEqual(t, f.peak.Load(), int32(4))

	seen := map[string]bool{}
	for _, p := range f.prompts {
		require.False(t, seen[p], "no two prompts are alike")
		seen[p] = true
	}
}

func TestRunIsReproducible(t *testing.T) {
	var sets [2]map[string]bool
	for i := range sets {
		f := &fake{}
		o := start(t, f)
		o.Endpoint = "completions"
		_, err := Run(context.Background(), o)
		require.NoError(t, err)
		sets[i] = map[string]bool{}
		for _, p := range f.prompts {
			sets[i][p] = true
		}
		require.Equal(t, map[string]int{client.PathCompletions: 22}, f.paths)
	}
	require.Equal(t, sets[0], sets[1])
}

func TestRunAtRate(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	o := start(t, f)
	o.Rate, o.Warmup = 1e5, 0
	go func() {
		for range 20 { // a rate does not wait for answers
			<-f.arrived
		}
		close(f.hold)
	}()
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 20, r.NumOK)
	require.Equal(t, int32(20), f.peak.Load())
}

func TestRunCountsErrorsByKind(t *testing.T) {
	f := &fake{status: func(n int) int {
		if n%4 == 0 {
			return 503
		}
		return 200
	}}
	o := start(t, f)
	o.Warmup = 0
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 15, r.NumOK)
	require.Equal(t, 5, r.NumFailed)
	require.Equal(t, 5, r.Errors["http_503"].Count)
	require.Equal(t, 15, r.TTFTMs.Count)
}

func TestRunFailsWhenTheWarmUpDoes(t *testing.T) {
	o := start(t, &fake{status: func(int) int { return 401 }})
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "HTTP 401")
}

func TestRunIsCancelledCleanly(t *testing.T) {
	for _, rate := range []float64{0, 1e5} {
		f := &fake{hold: make(chan struct{})}
		o := start(t, f)
		o.Warmup, o.Rate, o.NumRequests = 0, rate, 1000
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for range 4 {
				<-f.arrived
			}
			cancel()
		}()
		r, err := Run(ctx, o)
		require.NoError(t, err)
		require.True(t, r.Interrupted)
		require.Zero(t, r.NumOK)
		require.Equal(t, r.NumFailed, r.Errors["cancelled"].Count)
		var out bytes.Buffer
		require.NoError(t, r.WriteTable(&out))
		require.Contains(t, out.String(), "Interrupted")
	}
}

func TestRunTimesOut(t *testing.T) {
	o := start(t, &fake{hold: make(chan struct{})})
	o.Warmup, o.NumRequests, o.Timeout = 0, 2, time.Millisecond
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 2, r.Errors["timeout"].Count)
}

func TestChunksAreTimed(t *testing.T) {
	s := &sample{}
	s.chunk(&client.Chunk{}, 1) // the role
	s.chunk(&client.Chunk{Text: "a"}, 2)
	s.chunk(&client.Chunk{Text: "b"}, 3.5)
	s.chunk(&client.Chunk{FinishReason: "stop"}, 5)
	s.chunk(&client.Chunk{Usage: &client.Usage{CompletionTokens: 4}}, 6)
	require.Equal(t, 2.0, s.first)
	require.Equal(t, 5.0, s.last, "the last tokens had no text")
	require.Equal(t, []float64{1.5}, s.gaps)
	require.Equal(t, "stop", s.finish)
	require.Equal(t, 4, s.usage.CompletionTokens)
}

func ms(v float64) *float64 { return &v }

func TestCompare(t *testing.T) {
	b := newBook(1)
	s := &sample{
		first: 0.510, last: 1.012, end: 1.020, numPieces: 6, gaps: []float64{0.1, 0.1, 0.1, 0.1, 0.102},
		usage: &client.Usage{PromptTokens: 9, CompletionTokens: 6},
		metrics: &client.Metrics{
			QueueTimeMs: ms(200), TimeToFirstTokenMs: ms(300), GenerationTimeMs: ms(500), MeanITLMs: ms(100), TokensPerSecond: ms(7.5),
		},
	}
	b.add(s)
	s.metrics = &client.Metrics{QueueTimeMs: ms(200), TimeToFirstTokenMs: ms(300), GenerationTimeMs: ms(500), MeanITLMs: ms(90), TokensPerSecond: ms(7.5)}
	b.add(s)
	s.metrics = &client.Metrics{}
	b.add(s)
	r := b.report(&Options{Client: &client.Client{}}, time.Second, false)
	c := r.ServerMetrics
	require.Equal(t, 3, c.NumRequests)
	require.Equal(t, 1, c.NumInconsistent)
	require.Equal(t, 2, c.TTFTDiffMs.Count)
	require.InDelta(t, 10, c.TTFTDiffMs.P50, 1e-9)
	require.InDelta(t, 2, c.GenerationDiffMs.Max, 1e-9)
	require.InDelta(t, 0.4, c.MeanITLDiffMs.P50, 1e-9)
	require.InDelta(t, 20, c.E2EDiffMs.P99, 1e-9)
	require.InDelta(t, 200, c.QueueMs.Mean, 1e-9)
	require.InDelta(t, 100, r.ITLMs.P50, 1e-9)
	require.InDelta(t, 502.0/5, r.TPOTMs.P50, 1e-9)
}

func TestReportShowsServerMetrics(t *testing.T) {
	f := &fake{trailer: `,"metrics":{"time_to_first_token_ms":1,"generation_time_ms":4,"queue_time_ms":0,"mean_itl_ms":1,"tokens_per_second":1000}`}
	o := start(t, f)
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 20, r.ServerMetrics.NumRequests)
	require.Zero(t, r.ServerMetrics.NumInconsistent)

	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "client minus server, ms (20)")
	require.Contains(t, table.String(), "as the server reported, ms")
	require.NotContains(t, table.String(), "--enable-per-request-metrics")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, *r, back)
}

func TestSummarize(t *testing.T) {
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(200 - i)
	}
	require.Equal(t, Summary{Count: 200, Mean: 100.5, P50: 100, P90: 180, P99: 198, Max: 200}, summarize(values))
	require.Equal(t, Summary{Count: 1, Mean: 3, P50: 3, P90: 3, P99: 3, Max: 3}, summarize([]float64{3}))
	require.Equal(t, Summary{}, summarize(nil))
}

func TestGapsAreASample(t *testing.T) {
	b := newBook(1)
	for i := range maxGaps + 1000 {
		b.addGap(float64(i))
	}
	require.Len(t, b.gaps, maxGaps)
	require.Equal(t, maxGaps+1000, b.numGaps)
}

func TestErrorKind(t *testing.T) {
	for want, err := range map[string]error{
		"http_429":     &client.StatusError{Status: 429},
		"cancelled":    fmt.Errorf("x: %w", context.Canceled),
		"timeout":      fmt.Errorf("x: %w", context.DeadlineExceeded),
		"stream_error": &client.StreamError{Message: "m"},
		"truncated":    client.ErrTruncated,
		"protocol":     fmt.Errorf("%w: x", client.ErrProtocol),
		"other":        errors.New("x"),
	} {
		require.Equal(t, want, errorKind(err))
	}
	_, err := http.Get("http://127.0.0.1:1/")
	require.Equal(t, "connection", errorKind(err))
}
