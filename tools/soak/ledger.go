package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// The series that the books are about.
const (
	receivedTotal   = "troupe:requests_received_total"
	finishedTotal   = "troupe:requests_finished_total"
	generationTotal = "vllm:generation_tokens_total"
	runningNow      = "vllm:num_requests_running"
	waitingNow      = "vllm:num_requests_waiting"
	blocksNow       = "vllm:kv_cache_usage_perc"
	goroutinesNow   = "go_goroutines"
	filesNow        = "process_open_fds"
	residentNow     = "process_resident_memory_bytes"
)

// What a server at rest may have more of than before the traffic: threads of the
// runtime's and of fasthttp's pools come and go.
const (
	spareGoroutines = 10
	spareFiles      = 4
)

var reasons = []string{"stop", "length", "abort", "error", "refused"}

// record is a line of the request log.
type record struct {
	ID           string `json:"id"`
	FinishReason string `json:"finish_reason"`
	Error        string `json:"error"`
	OutputTokens int    `json:"num_output_tokens"`
	Recoveries   int    `json:"num_recoveries"`
}

func readRecords(path string) ([]record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []record
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var r record
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("request log, line %d: %w", len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, sc.Err()
}

// books are columns of numbers, each of which must come to zero.
type books struct {
	w       io.Writer
	numOpen int // columns that do not
}

func (b *books) row(name string, value int) { fmt.Fprintf(b.w, "  %-58s %10d\n", name, value) }

// zero closes a column.
func (b *books) zero(name string, rest int) {
	verdict := ""
	if rest != 0 {
		b.numOpen++
		verdict = "  <- must be 0"
	}
	fmt.Fprintf(b.w, "  %-58s %10d%s\n", "= "+name, rest, verdict)
}

// balance prints the ledger and fails if a column does not come to zero.
func balance(w io.Writer, t *traffic, m samples, records []record) error {
	b := &books{w: w}
	b.requests(t, m, records)
	b.tokens(t, m, records)
	fmt.Fprintf(w, "\nFailures: %d faults asked for\n", t.faults)
	recoveries := 0
	for _, r := range records {
		recoveries += r.Recoveries
	}
	b.row("batchers replaced", int(m.sum("troupe:batcher_restarts_total")))
	b.row("failures lived through by sequences", recoveries)
	for _, what := range t.wrong[:min(5, len(t.wrong))] {
		fmt.Fprintln(w, "  WRONG", what)
	}
	b.zero("answers that a quiet server does not give", len(t.wrong))
	fmt.Fprintln(w, "\nLeft behind")
	b.zero("running", int(m.sum(runningNow)))
	b.zero("waiting", int(m.sum(waitingNow)))
	b.zero("KV cache in use, in millionths", int(m.sum(blocksNow)*1e6))
	b.zero("goroutines more than at rest before", leaked(t.atRest, m, goroutinesNow, spareGoroutines))
	b.zero("files more than at rest before", leaked(t.atRest, m, filesNow, spareFiles))
	b.row("resident memory, MB (before)", int(t.atRest.sum(residentNow))>>20)
	b.row("resident memory, MB (after)", int(m.sum(residentNow))>>20)
	if b.numOpen > 0 {
		return fmt.Errorf("%d columns do not balance", b.numOpen)
	}
	if len(records) == 0 {
		return errors.New("nothing was recorded")
	}
	fmt.Fprintln(w, "\nThe books balance.")
	return nil
}

// leaked is how much a gauge lies above its value at rest, beyond what comes and goes.
func leaked(atRest, m samples, gauge string, spare int) int {
	return max(0, int(m.sum(gauge)-atRest.sum(gauge))-spare)
}

// requests: each has exactly one outcome, in Prometheus, in the log and at its client.
func (b *books) requests(t *traffic, m samples, records []record) {
	fmt.Fprintln(b.w, "\nRequests")
	received := int(m.sum(receivedTotal))
	b.row("sent by clients", len(t.sent))
	b.row("received", received)
	b.zero("sent - received", len(t.sent)-received)
	logged := map[string]int{}
	for _, r := range records {
		logged[r.FinishReason]++
	}
	rest := received
	for _, reason := range reasons {
		n := int(m.sum(finishedTotal, `finished_reason="`+reason+`"`))
		b.row("- "+reason, n)
		rest -= n
		if n != logged[reason] {
			b.zero("the metric - the log's "+reason, n-logged[reason])
		}
	}
	b.zero("received - finished", rest)
	b.zero("received - lines in the log", received-len(records))
	seen := map[outcome]int{}
	for _, s := range t.sent {
		seen[s.outcome]++
	}
	for _, o := range []outcome{whole, left, canceled, failed, refused, broken} {
		b.row("  at clients: "+string(o), seen[o])
	}
	b.zero("failed - made to fail", seen[failed]-int(t.poisoned.Load()))
}

// tokens: each that was generated is in a complete answer, or its request was
// aborted, failed, or had lost its reader.
func (b *books) tokens(t *traffic, m samples, records []record) {
	fmt.Fprintln(b.w, "\nTokens")
	var complete, aborted, failures, unread, misread, ghosts int
	for _, r := range records {
		s, known := t.sent[clientID(r.ID)]
		switch {
		case r.FinishReason == "abort":
			aborted += r.OutputTokens
		case r.FinishReason == "error":
			failures += r.OutputTokens
		case known && s.outcome == whole:
			complete += s.tokens
			misread += max(s.tokens-r.OutputTokens, r.OutputTokens-s.tokens)
		case known && s.outcome == left || r.OutputTokens == 0:
			unread += r.OutputTokens
		default:
			ghosts++
		}
	}
	generated := int(m.sum(generationTotal))
	b.row("generated, says Prometheus", generated)
	b.row("- in complete answers, say the clients", complete)
	b.row("- of aborted requests", aborted)
	b.row("- of failed requests", failures)
	b.row("- of answers that ended as their clients left", unread)
	b.zero("generated - accounted for", generated-complete-aborted-failures-unread)
	b.zero("tokens that clients and log see differently", misread)
	b.zero("finished requests that no client knows", ghosts)
}

// clientID finds the client's X-Request-Id in a request's id.
func clientID(id string) string {
	if i := strings.Index(id, "soak-"); i >= 0 {
		return id[i:]
	}
	return ""
}
