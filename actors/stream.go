package actors

import (
	"cmp"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
)

// stream is the one place where the actors of a request meet its reader: a
// mutex, a slice, and a channel that says "look again". A writer holds the lock
// for an append and never waits for the reader; what is pending is bounded.
//
// Invariant: the Final is appended exactly once, and nothing after it.
type stream struct {
	id     string
	root   *actor.RootContext // sends the Cancel
	ready  chan struct{}      // capacity 1: a wake-up is never lost and never blocks
	limits streamLimits
	job    *job // for those who look into a running request

	mu       sync.Mutex
	pending  []infer.Event
	bytes    int // size of pending
	lag      readerLag
	overflow bool
	finished bool
	request  *actor.PID         // nil until the request actor runs
	reason   infer.CancelReason // "" = not cancelled
}

// streamLimits are in bytes of pending events. Up to soft each delta is an event
// of its own, so that a reader who keeps up sees every token; from soft on deltas
// merge; a writer that would leave the reader more than hard behind is told that the
// client is too slow.
type streamLimits struct{ soft, hard int }

// readerLag is how far the reader is behind. What the choices give at once it cannot
// have read yet, however much that is: with prompts and log-probabilities one step of
// many choices, or of one, is more than the buffer. So the first delta of each choice
// since the last Drain is no lag; what comes behind it is, beyond as much again.
type readerLag struct {
	drains  int   // number of Drains so far, counted from 1
	firstIn []int // by choice: drains when it last began
	first   int   // bytes of first deltas since the last Drain
	bytes   int   // bytes of those behind them
}

func (l *readerLag) drained() {
	l.drains++
	l.first, l.bytes = 0, 0
}

// add counts a delta, and reports false if it is too far behind.
func (l *readerLag) add(choice, size, hard int) bool {
	for len(l.firstIn) <= choice {
		l.firstIn = append(l.firstIn, 0)
	}
	if l.firstIn[choice] != l.drains {
		l.firstIn[choice] = l.drains
		l.first += size + eventBytes
		return true
	}
	l.bytes += size
	return l.bytes <= hard+l.first
}

// A merged delta is bounded in bytes of text and in tokens, since merging copies.
const (
	maxMergedText   = 4 << 10
	maxMergedTokens = 512
)

var _ infer.Stream = (*stream)(nil)

func newStream(id string, root *actor.RootContext, bufferBytes int) *stream {
	return &stream{
		id: id, root: root, ready: make(chan struct{}, 1),
		limits: streamLimits{soft: bufferBytes / 4, hard: bufferBytes}, lag: readerLag{drains: 1},
	}
}

// ID implements infer.Stream.
func (s *stream) ID() string { return s.id }

// Ready implements infer.Stream.
func (s *stream) Ready() <-chan struct{} { return s.ready }

// Drain implements infer.Stream. An empty buf changes places with what is
// pending: the token path then copies no events and soon allocates none.
func (s *stream) Drain(buf []infer.Event) []infer.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag.drained()
	if len(buf) == 0 {
		s.pending, buf = buf, s.pending
		s.bytes = 0
		if s.finished {
			giveEvents(s.pending)
			s.pending = nil
		}
		return buf
	}
	buf = append(buf, s.pending...)
	clear(s.pending) // let go of texts and token slices
	s.pending = s.pending[:0]
	s.bytes = 0
	return buf
}

// Cancel implements infer.Stream. The first reason stands.
func (s *stream) Cancel(reason infer.CancelReason) { s.cancel(reason) }

// cancel reports whether this call is the one that counts.
func (s *stream) cancel(reason infer.CancelReason) bool {
	s.mu.Lock()
	request, first := s.request, !s.finished && s.reason == ""
	if first {
		s.reason = reason
	}
	s.mu.Unlock()
	if first && request != nil {
		s.root.Send(request, &Cancel{Reason: reason})
	}
	return first
}

// bind names the request actor, so that a Cancel finds it, and returns the
// reason of a Cancel that came before.
func (s *stream) bind(request *actor.PID) infer.CancelReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = request
	return s.reason
}

// push appends deltas in order, each of its own or merged into a pending one of
// its choice. It reports false, and drops what is left of these and all later
// ones, when the reader lags by more than the bound: the request must be cancelled.
func (s *stream) push(deltas ...infer.Delta) bool {
	s.mu.Lock()
	if s.pending == nil {
		s.pending = takeEvents()
	}
	for i := range deltas {
		d := &deltas[i]
		size := deltaBytes(d)
		s.overflow = s.overflow || !s.lag.add(d.Index, size, s.limits.hard)
		if s.overflow || s.finished {
			break
		}
		s.bytes += size
		if s.bytes <= s.limits.soft || !s.merge(d) {
			s.bytes += eventBytes
			s.pending = append(s.pending, infer.Event{Delta: *d})
		}
	}
	overflow := s.overflow
	s.mu.Unlock()
	s.wake()
	return !overflow
}

// eventBuffers are what streams that have ended leave to others.
var eventBuffers sync.Pool // of *[]infer.Event, empty and cleared

// Buffers of fewer events are as soon made anew; of more, too large to keep. What
// may be pending of one token each, by the default bound, fits.
const minKeptEvents, maxKeptEvents = 8, defaultStreamBufferBytes / 4 / eventBytes * 5 / 4

func takeEvents() []infer.Event {
	if kept, ok := eventBuffers.Get().(*[]infer.Event); ok {
		return *kept
	}
	return nil
}

// giveEvents keeps an empty buffer that nobody else has.
func giveEvents(buf []infer.Event) {
	if cap(buf) < minKeptEvents || cap(buf) > maxKeptEvents {
		return
	}
	clear(buf[:cap(buf)]) // let go of texts and token slices
	eventBuffers.Put(&buf)
}

// finish appends the Final; later calls do nothing.
func (s *stream) finish(f *infer.Final) {
	s.mu.Lock()
	if s.finished {
		s.mu.Unlock()
		return
	}
	s.finished = true
	s.pending = append(s.pending, infer.Event{Final: f})
	s.mu.Unlock()
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// merge adds d to the latest pending delta of its choice. The order between
// choices carries no meaning, so that others may lie in between.
func (s *stream) merge(d *infer.Delta) bool {
	for i := len(s.pending) - 1; i >= 0; i-- {
		last := &s.pending[i].Delta
		if last.Index != d.Index {
			continue
		}
		if len(last.Text)+len(d.Text) > maxMergedText || len(last.TokenIDs) >= maxMergedTokens {
			return false
		}
		last.Text += d.Text
		// The slices may share memory with other deltas of their step: clip them,
		// so that append copies.
		last.TokenIDs = append(last.TokenIDs[:len(last.TokenIDs):len(last.TokenIDs)], d.TokenIDs...)
		last.Logprobs = append(last.Logprobs[:len(last.Logprobs):len(last.Logprobs)], d.Logprobs...)
		last.Parsed = mergeParsed(last.Parsed, d.Parsed)
		last.NumOutputTokens = d.NumOutputTokens
		last.FinishReason, last.StopReason = d.FinishReason, d.StopReason
		return true
	}
	return false
}

// mergeParsed puts the pieces of two deltas together, of which either may have none.
func mergeParsed(first, second *infer.Parsed) *infer.Parsed {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	pieces := slices.Clone(first.Pieces)
	for _, p := range second.Pieces {
		if last := len(pieces) - 1; last >= 0 && pieces[last].Kind == p.Kind && pieces[last].Index == p.Index && p.Text != "" {
			pieces[last].Text += p.Text
			continue
		}
		pieces = append(pieces, p)
	}
	return &infer.Parsed{Pieces: pieces}
}

// Sizes are estimates of what a pending delta keeps alive, in bytes.
const (
	eventBytes   = 192 // an infer.Event with its slice headers
	logprobBytes = 40  // an infer.TokenLogprob with a short text
	pieceBytes   = 128 // an infer.Piece with its name and id
)

func deltaBytes(d *infer.Delta) int {
	size := len(d.Text) + 4*len(d.TokenIDs) + logprobsBytes(d.Logprobs)
	if d.Parsed != nil {
		size += len(d.Text) + pieceBytes*len(d.Parsed.Pieces)
	}
	if d.Prompt != nil {
		size += len(d.Prompt.Text) + 4*len(d.Prompt.TokenIDs) + logprobsBytes(d.Prompt.Logprobs)
	}
	return size
}

func logprobsBytes(logprobs []infer.TokenLogprobs) int {
	size := 0
	for i := range logprobs {
		size += logprobBytes * (1 + len(logprobs[i].Top))
	}
	return size
}
