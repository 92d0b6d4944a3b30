package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// maxGaps is the size of the sample of gaps between pieces.
const maxGaps = 1 << 20

// book collects samples. Values are milliseconds.
type book struct {
	mu                       sync.Mutex
	ttft, e2e, tpot          []float64
	gaps                     []float64
	numGaps                  int // seen; gaps is a uniform sample of them
	rng                      *rand.Rand
	promptTokens, outTokens  int
	numOK, numMetrics        int
	errors                   map[string]*ErrorCount
	diffTTFT, diffGeneration []float64
	diffITL, diffE2E         []float64
	queue                    []float64
	disagree                 int
}

func newBook(seed uint64) *book {
	return &book{rng: rand.New(rand.NewPCG(seed, 1)), errors: map[string]*ErrorCount{}}
}

func (b *book) add(s *sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.err != nil {
		b.addError(s.err)
		return
	}
	b.numOK++
	b.e2e = append(b.e2e, 1000*s.end)
	numTokens := s.numPieces
	if s.usage != nil {
		numTokens = s.usage.CompletionTokens
		b.promptTokens += s.usage.PromptTokens
	}
	b.outTokens += numTokens
	if s.numPieces == 0 {
		return
	}
	b.ttft = append(b.ttft, 1000*s.first)
	if numTokens > 1 {
		b.tpot = append(b.tpot, 1000*(s.last-s.first)/float64(numTokens-1))
	}
	for _, gap := range s.gaps {
		b.addGap(1000 * gap)
	}
	if s.metrics != nil {
		b.compare(s, numTokens)
	}
}

// addGap keeps a uniform sample of all gaps.
func (b *book) addGap(ms float64) {
	b.numGaps++
	if len(b.gaps) < maxGaps {
		b.gaps = append(b.gaps, ms)
		return
	}
	if i := b.rng.IntN(b.numGaps); i < maxGaps {
		b.gaps[i] = ms
	}
}

// compare books the client's times minus the server's. What the client waits
// for its first token is the server's queue and prefill, and the way there and
// back: those differences are HTTP and tokenization.
func (b *book) compare(s *sample, numTokens int) {
	m := s.metrics
	b.numMetrics++
	if m.QueueTimeMs != nil {
		b.queue = append(b.queue, *m.QueueTimeMs)
	}
	if m.GenerationTimeMs != nil {
		b.diffGeneration = append(b.diffGeneration, 1000*(s.last-s.first)-*m.GenerationTimeMs)
	}
	if m.MeanITLMs != nil && numTokens > 1 {
		b.diffITL = append(b.diffITL, 1000*(s.last-s.first)/float64(numTokens-1)-*m.MeanITLMs)
	}
	if m.QueueTimeMs == nil || m.TimeToFirstTokenMs == nil {
		return
	}
	first := *m.QueueTimeMs + *m.TimeToFirstTokenMs
	b.diffTTFT = append(b.diffTTFT, 1000*s.first-first)
	if m.GenerationTimeMs == nil {
		return
	}
	b.diffE2E = append(b.diffE2E, 1000*s.end-first-*m.GenerationTimeMs)
	if !consistent(m, numTokens) {
		b.disagree++
	}
}

// consistent checks the identities that hold between the server's own fields.
func consistent(m *client.Metrics, numTokens int) bool {
	inference := *m.TimeToFirstTokenMs + *m.GenerationTimeMs
	if inference > 0 && (m.TokensPerSecond == nil || !near(*m.TokensPerSecond*inference, 1000*float64(numTokens))) {
		return false
	}
	return numTokens < 2 || m.MeanITLMs != nil && near(*m.MeanITLMs*float64(numTokens-1), *m.GenerationTimeMs)
}

// near allows the rounding of servers that print few digits.
func near(a, b float64) bool {
	d := a - b
	return d*d <= 1e-4*max(a*a, b*b)
}

// ErrorCount is how often a kind of error came, with the first one's words.
type ErrorCount struct {
	Count int    `json:"count"`
	First string `json:"first"`
}

func (b *book) addError(err error) {
	kind := errorKind(err)
	if b.errors[kind] == nil {
		b.errors[kind] = &ErrorCount{First: err.Error()}
	}
	b.errors[kind].Count++
}

func errorKind(err error) string {
	var status *client.StatusError
	var stream *client.StreamError
	var network net.Error
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("http_%d", status.Status)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &stream):
		return "stream_error"
	case errors.Is(err, client.ErrTruncated):
		return "truncated"
	case errors.Is(err, client.ErrProtocol):
		return "protocol"
	case errors.As(err, &network):
		return "connection"
	}
	return "other"
}

func (b *book) report(o *Options, elapsed time.Duration, interrupted bool) *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	seconds := max(elapsed.Seconds(), 1e-9)
	r := &Report{
		URL: o.Client.BaseURL, Model: o.Model, Endpoint: o.Endpoint,
		Concurrency: o.Concurrency, Rate: o.Rate, Seed: o.Seed, Interrupted: interrupted,
		DurationSeconds: elapsed.Seconds(), NumOK: b.numOK, Errors: b.errors,
		PromptTokens: b.promptTokens, OutputTokens: b.outTokens,
		RequestsPerSecond:     float64(b.numOK) / seconds,
		OutputTokensPerSecond: float64(b.outTokens) / seconds,
		PromptTokensPerSecond: float64(b.promptTokens) / seconds,
		TTFTMs:                summarize(b.ttft),
		ITLMs:                 summarize(b.gaps),
		TPOTMs:                summarize(b.tpot),
		E2EMs:                 summarize(b.e2e),
	}
	for _, e := range b.errors {
		r.NumFailed += e.Count
	}
	if b.numMetrics > 0 {
		r.ServerMetrics = &Comparison{
			NumRequests: b.numMetrics, NumInconsistent: b.disagree,
			QueueMs:          summarize(b.queue),
			TTFTDiffMs:       summarize(b.diffTTFT),
			GenerationDiffMs: summarize(b.diffGeneration),
			MeanITLDiffMs:    summarize(b.diffITL),
			E2EDiffMs:        summarize(b.diffE2E),
		}
	}
	return r
}
