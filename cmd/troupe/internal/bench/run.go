package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// Options say what to send.
type Options struct {
	Client   *client.Client
	Model    string
	Endpoint string // chat or completions

	NumRequests int
	Concurrency int     // requests in flight; not used with Rate
	Rate        float64 // requests started per second at exponential gaps; 0 = keep Concurrency in flight
	Warmup      int     // requests before the measurement
	Timeout     time.Duration

	PromptTokens, OutputTokens int
	IgnoreEOS                  bool
	Seed                       uint64
	// Progress is told, once before the first and after each request, how many of
	// those to measure are over; nil = nobody is. Calls come one at a time.
	Progress func(done, failed int)
}

// maxInFlight bounds the requests in flight with Rate.
const maxInFlight = 1 << 16

// Run sends the load and returns what came of it. When ctx ends, what is in
// flight is cancelled and the report covers what had been measured. The error is
// for a server that not even the warm-up could use.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &runner{
		o:       o,
		prompts: prompter{numTokens: o.PromptTokens, wordsPerToken: 1, seed: o.Seed},
		book:    newBook(o.Seed),
	}
	if err := r.warmUp(ctx); err != nil {
		return nil, err
	}
	r.tell(false, false)
	start := time.Now()
	if o.Rate > 0 {
		r.atRate(ctx)
	} else {
		r.atConcurrency(ctx)
	}
	return r.book.report(&o, time.Since(start), ctx.Err() != nil), nil
}

type runner struct {
	o       Options
	prompts prompter
	book    *book

	mu           sync.Mutex // guards the counts, and serialises Progress
	done, failed int
}

// measure sends request i and books it.
func (r *runner) measure(ctx context.Context, i int) {
	s := r.send(ctx, i)
	r.book.add(s)
	r.tell(true, s.err != nil)
}

// tell reports progress.
func (r *runner) tell(isDone, hasFailed bool) {
	if r.o.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isDone {
		r.done++
	}
	if hasFailed {
		r.failed++
	}
	r.o.Progress(r.done, r.failed)
}

// warmUp opens connections and measures how many tokens a word is.
func (r *runner) warmUp(ctx context.Context) error {
	for i := range r.o.Warmup {
		s := r.send(ctx, -1-i)
		if s.err != nil {
			return fmt.Errorf("warm-up request: %w", s.err)
		}
		if s.usage != nil {
			r.prompts.calibrate(s.usage.PromptTokens)
		}
	}
	return nil
}

func (r *runner) atConcurrency(ctx context.Context) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(r.o.Concurrency, r.o.NumRequests) {
		wg.Go(func() {
			for i := range next {
				r.measure(ctx, i)
			}
		})
	}
	for i := range r.o.NumRequests {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
}

func (r *runner) atRate(ctx context.Context) {
	rng := rand.New(rand.NewPCG(r.o.Seed, 0x9e3779b97f4a7c15))
	slots := make(chan struct{}, maxInFlight)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var wg sync.WaitGroup
	due := time.Now()
	for i := range r.o.NumRequests {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r.measure(ctx, i)
		})
		due = due.Add(time.Duration(rng.ExpFloat64() / r.o.Rate * float64(time.Second)))
	}
	wg.Wait()
}

// sample is one request as the client saw it. Times are seconds since sending.
type sample struct {
	err         error
	first, last float64 // first piece of text and last piece or finish; 0 = none came
	end         float64
	gaps        []float64 // between pieces
	numPieces   int
	usage       *client.Usage
	metrics     *client.Metrics
	finish      string
}

// send runs request i under the stopwatch.
func (r *runner) send(ctx context.Context, i int) *sample {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	path, body := r.request(i)
	s := &sample{}
	start := time.Now()
	s.err = r.o.Client.Stream(ctx, path, body, func(c *client.Chunk) {
		s.chunk(c, time.Since(start).Seconds())
	})
	s.end = time.Since(start).Seconds()
	if s.err != nil && ctx.Err() != nil {
		s.err = ctx.Err() // what the connection says of it is of no use
	}
	return s
}

func (s *sample) chunk(c *client.Chunk, at float64) {
	if c.Usage != nil {
		s.usage = c.Usage
	}
	if c.Metrics != nil {
		s.metrics = c.Metrics
	}
	if c.FinishReason != "" {
		s.finish = c.FinishReason
	}
	if c.Text == "" {
		// The last tokens may have no text: the end is when the server says so.
		if c.FinishReason != "" && s.numPieces > 0 {
			s.last = at
		}
		return
	}
	if s.numPieces > 0 {
		s.gaps = append(s.gaps, at-s.last)
	} else {
		s.first = at
	}
	s.last = at
	s.numPieces++
}

func (r *runner) request(i int) (path string, body map[string]any) {
	prompt := r.prompts.text(i)
	body = map[string]any{
		"model": r.o.Model, "max_tokens": r.o.OutputTokens, "temperature": 0, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
	}
	if r.o.IgnoreEOS {
		body["ignore_eos"] = true
	}
	if r.o.Endpoint == "completions" {
		body["prompt"] = prompt
		return client.PathCompletions, body
	}
	body["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	return client.PathChat, body
}
