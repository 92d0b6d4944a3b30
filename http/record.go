package http

import (
	"encoding/json"
	"time"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

// record is what remains of a call of a generating endpoint: how it went, and
// none of its text.
type record struct {
	ID              string          `json:"id"`
	Object          string          `json:"object"` // "request"
	Key             string          `json:"key"`    // the API key's name, "" = none
	Endpoint        string          `json:"endpoint"`
	Stream          bool            `json:"stream"`
	ReceivedAt      time.Time       `json:"received_at"`
	Status          int             `json:"status"`        // of the response; 499 = the client left
	FinishReason    string          `json:"finish_reason"` // infer's words, or "refused"
	Error           string          `json:"error"`         // infer's code, "" = none
	NumPromptTokens int             `json:"num_prompt_tokens"`
	NumOutputTokens int             `json:"num_output_tokens"`
	NumCachedTokens int             `json:"num_cached_tokens"`
	NumSequences    int             `json:"num_sequences"`
	NumRecoveries   int             `json:"num_recoveries"`
	E2EMs           float64         `json:"e2e_ms"`
	Metrics         json.RawMessage `json:"metrics"` // the five values, null if not attributable
}

// errClientLeft is the error of a request whose client left before it was admitted.
const errClientLeft = "client_gone"

// entry is a record in the making. One goroutine at a time has it.
type entry struct {
	record
	ledger *ledger
	key    *key
	claim  string // the id that is reserved, "" = none
	isOver bool
}

// identify names the entry by the request that its body turned out to be.
func (e *entry) identify(req *infer.Request) {
	req.ID = e.ledger.claim(req.ID)
	e.claim, e.ID = req.ID, req.ID
	e.Stream = req.Stream
	e.NumSequences = max(1, len(req.Prompts)) * req.N
}

// refused closes the entry of a request that no engine took. Without an error it
// was the client that left, or a panic.
func (e *entry) refused(status int, err error) {
	switch {
	case err != nil:
		e.Status, e.Error = problemOf(err).Status, errorCode(err)
	case status == metrics.StatusClientGone:
		e.Status, e.Error = status, errClientLeft
	case status >= fasthttp.StatusBadRequest:
		e.Status = status
	default:
		e.Status, e.Error = fasthttp.StatusInternalServerError, string(infer.CodeInternal)
	}
	e.FinishReason = metrics.Refused
	e.end()
}

// errorCode is infer's word for an error; what only HTTP has a status for has none.
func errorCode(err error) string {
	if problemOf(err).Status != fasthttp.StatusInternalServerError && infer.AsError(err).Code == infer.CodeInternal {
		return ""
	}
	return string(infer.AsError(err).Code)
}

// finished closes the entry of a request that ended with f. status is what the
// client was answered, whatever f says; 0 = it follows from f.
func (e *entry) finished(f *infer.Final, status int) {
	e.NumPromptTokens, e.NumOutputTokens, e.NumCachedTokens = f.Usage.NumPromptTokens, f.Usage.NumCompletionTokens, f.Usage.NumCachedTokens
	e.NumRecoveries = f.NumRecoveries
	e.FinishReason = f.FinishReason.String()
	e.Status = fasthttp.StatusOK
	if f.Err != nil {
		e.Error = string(f.Err.Code)
		if !e.Stream && f.Loop == nil { // of a loop, what it did before it failed is answered
			e.Status = problemOf(f.Err).Status
		}
	}
	if status != 0 {
		e.Status = status
	}
	if f.Metrics != nil && e.ledger.isRead() {
		f.StampWritten(infer.Now())
		e.Metrics = openai.AppendMetrics(nil, f.Metrics)
	}
	e.end()
}

func (e *entry) end() {
	if e.isOver {
		return
	}
	e.isOver = true
	e.E2EMs = float64(time.Since(e.ReceivedAt).Microseconds()) / 1e3
	e.ledger.close(e)
}

// meter is a stream that keeps its request's entry and charges its key. One
// goroutine at a time reads it.
type meter struct {
	infer.Stream
	entry   *entry
	call    *call
	charged int // tokens
	// What the answer ended with before the stream did, 0 and nil = it did not.
	status int
	told   *infer.Error
}

// Drain implements infer.Stream.
func (m *meter) Drain(buf []infer.Event) []infer.Event {
	before := len(buf)
	buf = m.Stream.Drain(buf)
	numTokens := 0
	for i := before; i < len(buf); i++ {
		if f := buf[i].Final; f != nil {
			numTokens = f.Usage.NumPromptTokens + f.Usage.NumCompletionTokens - m.charged
			if m.status == 0 && f.FinishReason == infer.FinishAbort && m.call.hasGone() {
				m.status = metrics.StatusClientGone
			}
			m.entry.finished(m.seen(f), m.status)
			continue
		}
		numTokens += len(buf[i].Delta.TokenIDs)
	}
	if k := m.entry.key; k != nil && k.tokens != nil && numTokens > 0 {
		m.charged += numTokens
		k.charge(time.Now(), numTokens)
	}
	return buf
}

// seen is f with the error that the client was told.
func (m *meter) seen(f *infer.Final) *infer.Final {
	if m.told == nil {
		return f
	}
	told := *f
	told.Err = m.told
	return &told
}

// settle reads what a reader who left has not: how the request ended.
func (m *meter) settle() {
	if m.entry.isOver {
		return
	}
	m.entry.ledger.settling.Go(func() {
		defer func() {
			if recover() != nil { // nobody is left to tell; the entry must not stay open
				m.entry.finished(&infer.Final{FinishReason: infer.FinishError, Err: infer.Internal(errPanic)}, m.status)
			}
		}()
		var buf []infer.Event
		for !m.entry.isOver {
			<-m.Ready()
			buf = m.Drain(buf[:0])
		}
	})
}
