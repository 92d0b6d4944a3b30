package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// job is a request whose right answer is known.
type job struct {
	path   string
	fields map[string]any
	quiet  answer // what a server without load and faults says
}

// answer is what a client reads of one request.
type answer struct {
	texts    []string
	finishes []string
	tokens   int // of usage
}

func (a *answer) equal(b *answer) bool {
	return a.tokens == b.tokens && slices.Equal(a.texts, b.texts) && slices.Equal(a.finishes, b.finishes)
}

// outcome is how a request ended for its client.
type outcome string

const (
	whole    outcome = "whole"    // the complete answer came
	left     outcome = "left"     // the client hung up
	refused  outcome = "refused"  // a 4xx or 503 before the first token
	failed   outcome = "failed"   // a 500, or an error in mid-stream
	broken   outcome = "broken"   // the connection ended without a word
	canceled outcome = "canceled" // by the administrator
	unsent   outcome = "unsent"   // the client hung up before it had asked
)

// sent is the client's own record of a request.
type sent struct {
	outcome outcome
	tokens  int
}

// traffic is all that the clients do and see.
type traffic struct {
	server *server
	client *http.Client
	seed   uint64
	jobs   []*job

	canPoison bool    // the server knows requests that break it
	atRest    samples // the metrics before the traffic

	mu     sync.Mutex
	sent   map[string]sent // by X-Request-Id
	wrong  []string        // complete answers that a quiet server does not give
	faults int

	poisoned atomic.Int64 // requests that failed because they were made to
}

func newTraffic(s *server, seed uint64) *traffic {
	return &traffic{server: s, seed: seed, jobs: newJobs(), sent: make(map[string]sent), client: newClient()}
}

// newJobs returns valid requests of every form.
func newJobs() []*job {
	var jobs []*job
	add := func(path string, fields map[string]any) {
		fields["model"] = "understudy"
		jobs = append(jobs, &job{path: path, fields: fields})
	}
	for i, question := range []string{"What is the capital of France?", "Tell me a short story about a fox.", "What is 7 plus 5?", "Say hello.", "Count to forty in digits."} {
		messages := []map[string]any{{"role": "user", "content": question}}
		add(chatPath, map[string]any{"messages": messages, "temperature": 0, "max_tokens": 200})
		add(chatPath, map[string]any{"messages": messages, "seed": 100 + i, "temperature": 1, "max_tokens": 40 + 60*i, "ignore_eos": true})
		add(chatPath, map[string]any{"messages": messages, "seed": 200 + i, "temperature": 0.8, "max_tokens": 60, "n": 2 + i%2})
		add(textPath, map[string]any{"prompt": question, "seed": 300 + i, "temperature": 1, "max_tokens": 30 + 30*i, "ignore_eos": true})
		add(textPath, map[string]any{"prompt": question, "temperature": 0, "max_tokens": 64, "stop": []string{".", "e "}})
	}
	add(textPath, map[string]any{"prompt": []string{"One plus one is", "The sky is", "Once upon a time"}, "temperature": 0, "max_tokens": 48})
	return jobs
}

// rehearse asks for every job's answer while nothing else happens.
func (t *traffic) rehearse(ctx context.Context) error {
	for i, j := range t.jobs {
		id := fmt.Sprintf("soak-quiet-%d-", i)
		got := t.ask(ctx, id, j, false, nil)
		if got.outcome != whole {
			return fmt.Errorf("%v: %s: %s", j.fields, got.outcome, got.trouble)
		}
		j.quiet = got.answer
		t.note(id, got)
	}
	return nil
}

// run makes traffic and faults for a while, and ends when every client has.
func (t *traffic) run(ctx context.Context, workers int, length time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { t.sabotage(ctx) })
	for w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(t.seed, uint64(w)+1))
			for i := 0; ctx.Err() == nil; i++ {
				if t.act(context.WithoutCancel(ctx), rng, fmt.Sprintf("soak-%d-%d-", w, i)) == refused {
					wait(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// sabotage makes steps fail, which must fail no request: failures in company convict
// nobody, and they are far enough apart that a suspect which runs alone has the token
// that clears it before the next one.
func (t *traffic) sabotage(ctx context.Context) {
	rng := rand.New(rand.NewPCG(t.seed, 0))
	kinds := []string{"panic", "panic", "error", "error", "stall"}
	for {
		if wait(ctx, time.Duration(200+rng.IntN(1800))*time.Millisecond); ctx.Err() != nil {
			return
		}
		body := fmt.Sprintf(`{"kind": %q, "batcher": %d}`, kinds[rng.IntN(len(kinds))], rng.IntN(3)-1)
		if status, err := t.server.admin(ctx, http.MethodPost, "/debug/fault", body); err == nil && status == http.StatusOK {
			t.faults++
		}
	}
}

// wait returns after a while, or when ctx is done.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// act sends one request and notes what became of it.
func (t *traffic) act(ctx context.Context, rng *rand.Rand, id string) outcome {
	j := t.jobs[rng.IntN(len(t.jobs))]
	var got result
	switch p := rng.IntN(100); {
	case p < 45:
		got = t.ask(ctx, id, j, true, nil)
	case p < 65:
		got = t.ask(ctx, id, j, false, nil)
	case p < 80: // leaves in mid-stream
		got = t.askAndLeave(ctx, id, j, 1+rng.IntN(30))
	case p < 87: // leaves whatever happens
		early, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(60))*time.Millisecond)
		got = t.ask(early, id, j, rng.IntN(2) == 0, nil)
		cancel()
	case p < 92:
		got = t.askAndBeCancelled(ctx, id, j)
	case p < 93 && t.canPoison:
		got := t.askForTrouble(ctx, id, &job{path: textPath, fields: poison}, rng.IntN(2) == 0)
		if got == failed {
			t.poisoned.Add(1)
		}
		return got
	default:
		return t.askForTrouble(ctx, id, &job{path: j.path, fields: badRequests[rng.IntN(len(badRequests))]}, false)
	}
	if got.outcome == whole && !got.answer.equal(&j.quiet) {
		t.blame(id, fmt.Sprintf("%v\n  quiet: %+v\n  now:   %+v", j.fields, j.quiet, got.answer))
	}
	t.note(id, got)
	return got.outcome
}

// askForTrouble sends what must not be answered.
func (t *traffic) askForTrouble(ctx context.Context, id string, j *job, stream bool) outcome {
	got := t.ask(ctx, id, j, stream, nil)
	if got.outcome == whole {
		t.blame(id, fmt.Sprintf("was answered: %v", j.fields))
	}
	t.note(id, got)
	return got.outcome
}

// poison makes a step fail that names its culprit.
var poison = map[string]any{"model": "understudy", "prompt": "x", "max_tokens": 60, "ignore_eos": true, "temperature": 1,
	"vllm_xargs": map[string]any{"troupe_fault": "panic-in-sampling", "troupe_fault_after": 3}}

var badRequests = []map[string]any{
	{"model": "nobody", "prompt": "x", "messages": []any{}},
	{"model": "understudy"},
	{"model": "understudy", "prompt": "x", "messages": []map[string]any{{"role": "user", "content": "x"}}, "max_tokens": -1},
	{"model": "understudy", "prompt": "x", "messages": []map[string]any{{"role": "user", "content": "x"}}, "temperature": "hot"},
	{"model": "understudy", "prompt": "x", "messages": []map[string]any{{"role": "user", "content": "x"}}, "n": 100_000},
}

// askAndLeave hangs up after so many chunks.
func (t *traffic) askAndLeave(ctx context.Context, id string, j *job, chunks int) result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return t.ask(ctx, id, j, true, func(n int) {
		if n >= chunks {
			cancel()
		}
	})
}

// askAndBeCancelled has the administrator cancel the request after its first chunk.
func (t *traffic) askAndBeCancelled(ctx context.Context, id string, j *job) result {
	isCancelled := false
	got := t.ask(ctx, id, j, true, func(n int) {
		if n == 1 {
			prefix := "chatcmpl-"
			if j.path == textPath {
				prefix = "cmpl-"
			}
			status, err := t.server.admin(ctx, http.MethodDelete, "/v1/requests/"+prefix+id, "")
			isCancelled = err == nil && status == http.StatusOK
		}
	})
	if got.outcome == failed && isCancelled {
		got.outcome = canceled
	}
	return got
}

func (t *traffic) note(id string, got result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if got.outcome == unsent {
		return
	}
	t.sent[id] = sent{got.outcome, got.answer.tokens}
	if got.outcome == broken {
		t.wrong = append(t.wrong, fmt.Sprintf("%s: the connection ended without a word: %s", id, got.trouble))
	}
}

func (t *traffic) blame(id, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, id+": "+what)
}
