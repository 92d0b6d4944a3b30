package grammar

import (
	"fmt"
	"slices"
)

// Matcher follows one text through a grammar. It is for one goroutine at a
// time; any number of matchers may share a grammar and a vocabulary.
type Matcher struct {
	b *binding
	// The threads after each of the last tokens, one state after the other; the
	// last state is the current one. An empty state follows an EOS token.
	threads []thread
	starts  []int32 // where each state starts in threads
	ended   bool    // the last token was an EOS
	count   int     // tokens accepted and not undone; starts forgets old ones
	work    int     // steps spent, less tokenWork per token
	late    *late   // not nil while it goes on by itself: see Next

	scratch [2][]thread
}

// newMatcher starts at the root of b's program.
func newMatcher(b *binding) *Matcher {
	m := &Matcher{b: b, starts: []int32{0}}
	s := m.stepper()
	m.threads = s.enter(nil, 0, thread{nil, b.p.root, 0})
	return m
}

func (m *Matcher) stepper() stepper {
	return stepper{p: m.b.p, longest: m.b.v.longest, most: unlimited}
}

func (m *Matcher) current() []thread { return m.threads[m.starts[len(m.starts)-1]:] }

// Mask writes the tokens that may come next: bit i%64 of dst[i/64] is token i.
// dst has at least [Vocabulary.MaskWords] words; the ones beyond become zero.
// EOS tokens are allowed if the text so far is complete. The mask is empty only
// if the vocabulary has no token for a byte that must come: see
// [Vocabulary.MissingBytes].
func (m *Matcher) Mask(dst []uint64) { m.mask(dst, unlimited) }

// mask is Mask within most steps. It returns those that it took: if they are more,
// some tokens may be missing, and nothing is booked.
func (m *Matcher) mask(dst []uint64, most int) (work int) {
	clear(dst)
	complete := m.ended
	limit := m.b.v.textWork()
	for _, t := range m.current() {
		complete = complete || t.pc == matchNode
		if m.work+work <= limit { // else Accept ends the text
			if work += m.b.addMask(dst, t, most-work); work > most {
				return work
			}
		}
	}
	if complete {
		setBits(dst, m.b.v.eos)
	}
	m.work += work
	return work
}

// complete reports whether the text may end here.
func (m *Matcher) complete() bool {
	return slices.ContainsFunc(m.current(), func(t thread) bool { return t.pc == matchNode })
}

// Allowed reports whether token may come next, without computing a mask.
func (m *Matcher) Allowed(token int32) bool {
	v := m.b.v
	if !v.exists(token) || m.ended {
		return v.isEOS[token]
	}
	if v.isEOS[token] {
		return m.complete()
	}
	if !v.allowed[token] {
		return false
	}
	set, _, _ := m.follow(v.tokens[token], unlimited)
	return len(set) > 0
}

// follow returns the threads after some bytes, in scratch memory, and the steps
// that it took, of no use if they are more than most; over says that there are too
// many threads.
func (m *Matcher) follow(text []byte, most int) (set []thread, work int, over bool) {
	s := m.stepper()
	s.most = most
	set = m.current()
	for i, c := range text {
		out := &m.scratch[i&1]
		*out = s.step((*out)[:0], set, c)
		if set = *out; len(set) == 0 || s.over {
			return nil, s.work, s.over
		}
	}
	return set, s.work, false
}

// Accept moves on by one token. It fails, and changes nothing, if the mask does
// not allow the token. If the grammar is so ambiguous that the text can be read
// in too many ways at once, or that masks take too long, the error is an
// [infer.Error] for the client.
func (m *Matcher) Accept(token int32) error {
	_, err := m.accept(token, unlimited)
	return err
}

// accept is Accept within most steps. It returns those that it took: if they are
// more, nothing has changed.
func (m *Matcher) accept(token int32, most int) (work int, err error) {
	v := m.b.v
	switch {
	case !v.exists(token):
		return 0, fmt.Errorf("grammar: token %d is not in the vocabulary of %d", token, len(v.tokens))
	case v.isEOS[token]:
		if !m.ended && !m.complete() {
			return 0, fmt.Errorf("grammar: token %d ends a text that is not complete", token)
		}
		m.ended = true
		m.push(nil)
		return 0, nil
	case m.ended || !v.allowed[token]:
		return 0, fmt.Errorf("grammar: token %d is not allowed here", token)
	}
	next, work, over := m.follow(v.tokens[token], most)
	if work > most {
		return work, nil
	}
	return work, m.moveOn(token, next, work, over)
}

// moveOn books what follow has found for a token.
func (m *Matcher) moveOn(token int32, next []thread, work int, over bool) error {
	v := m.b.v
	if over {
		return m.b.opts.invalid("", "it is too ambiguous: the text can be read in more ways at once than the limit of %d", maxThreads)
	}
	if m.work+work > v.textWork() {
		return m.b.opts.invalid("", "it is too ambiguous: finding the next tokens took more steps than the limit of %d", v.textWork())
	}
	if len(next) == 0 {
		return fmt.Errorf("grammar: token %d (%q) is not allowed here", token, v.tokens[token])
	}
	m.push(next)
	m.work = max(0, m.work+work-v.tokenWork())
	return nil
}

// push makes state the current one, and forgets states that are too old.
func (m *Matcher) push(state []thread) {
	if len(m.starts) > 2*MaxRollback {
		drop := len(m.starts) - MaxRollback
		first := m.starts[drop]
		n := copy(m.threads, m.threads[first:])
		clear(m.threads[n:])
		m.threads = m.threads[:n]
		m.starts = m.starts[:copy(m.starts, m.starts[drop:])]
		for i := range m.starts {
			m.starts[i] -= first
		}
	}
	m.starts = append(m.starts, int32(len(m.threads)))
	m.threads = append(m.threads, state...)
	m.count++
}

// NumAccepted returns the number of tokens accepted and not undone.
func (m *Matcher) NumAccepted() int {
	if m.late != nil {
		return m.late.count
	}
	return m.count
}

// Rollback undoes the last n accepted tokens. It panics if there are fewer, or
// if n is more than [MaxRollback].
func (m *Matcher) Rollback(n int) {
	if n < 0 || n > MaxRollback || n >= len(m.starts) {
		panic(fmt.Sprintf("grammar: rollback of %d tokens", n))
	}
	if n == 0 {
		return
	}
	keep := len(m.starts) - n
	end := m.starts[keep]
	clear(m.threads[end:])
	m.threads, m.starts = m.threads[:end], m.starts[:keep]
	m.count -= n
	m.ended = len(m.current()) == 0
}

// Done reports whether nothing may follow but an EOS token.
func (m *Matcher) Done() bool {
	return !slices.ContainsFunc(m.current(), func(t thread) bool { return t.pc != matchNode })
}

// maxForced bounds the answer of Forced.
const maxForced = 1024

// Forced returns the bytes that must come next, whatever the model prefers; nil
// if there is a choice, one of them being to end. The caller owns them.
func (m *Matcher) Forced() []byte {
	var out []byte
	s := m.stepper()
	set := m.current()
	for len(out) < maxForced {
		c, ok := m.onlyByte(set)
		if !ok {
			break
		}
		buf := &m.scratch[len(out)&1]
		*buf = s.step((*buf)[:0], set, c)
		set = *buf
		out = append(out, c)
	}
	return out
}

func (m *Matcher) onlyByte(set []thread) (byte, bool) {
	var only byte
	for i, t := range set {
		c, ok := m.b.p.only(&m.b.p.nodes[t.pc])
		if !ok || i > 0 && c != only {
			return 0, false
		}
		only = c
	}
	return only, len(set) > 0
}

// Clone returns an independent matcher at the same place, with the same past.
func (m *Matcher) Clone() *Matcher {
	return &Matcher{b: m.b, threads: slices.Clone(m.threads), starts: slices.Clone(m.starts), ended: m.ended, count: m.count, work: m.work}
}
