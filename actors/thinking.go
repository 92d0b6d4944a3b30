package actors

import (
	"bytes"
	"slices"

	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// thinkFirst makes a grammar that is about the answer let thoughts pass before it.
func (e *Engine) thinkFirst(g infer.Grammar, p *parsing) infer.Grammar {
	if g == nil || p == nil || p.thoughts == "" {
		return g
	}
	block, err := reasoning.BlockOf(p.thoughts, p.options)
	if err != nil || block.None {
		return g
	}
	t := &thinkingGrammar{answer: g, tokenizer: e.config.Tokenizer, vocabSize: e.config.Model.VocabSize, eos: e.config.EOSTokenIDs, inside: block.Inside}
	for _, end := range block.Ends {
		t.ends = append(t.ends, []byte(end))
	}
	for _, start := range block.Starts {
		if ids := e.config.Tokenizer.Encode(start, tokenizer.EncodeOptions{}); len(ids) == 1 {
			t.starts = append(t.starts, ids[0])
		}
	}
	return t
}

// thinkingGrammar is a grammar for what comes behind the thoughts. They may have any
// text, but they must come to an end.
type thinkingGrammar struct {
	answer    infer.Grammar
	tokenizer *tokenizer.Tokenizer
	vocabSize int
	eos       []int32
	inside    bool     // the output begins within the thoughts
	starts    []int32  // tokens that begin them; markers of several tokens do not
	ends      [][]byte // what ends them
}

// NewMatcher implements infer.Grammar.
func (g *thinkingGrammar) NewMatcher() infer.Matcher {
	return &thinkingMatcher{thinkingGrammar: g, answer: g.answer.NewMatcher()}
}

// thinkingMatcher is in front of the thoughts, within them or behind them. It is
// behind them as soon as the answer has a token.
type thinkingMatcher struct {
	*thinkingGrammar
	answer infer.Matcher
	text   []byte // of the thoughts, markers included
	tokens []int  // by token of the thoughts: bytes of text up to its end
	ended  bool   // text has an end
}

func (m *thinkingMatcher) thinks() bool {
	return !m.ended && m.answer.NumAccepted() == 0 && (m.inside || len(m.tokens) > 0)
}

func (m *thinkingMatcher) mayStart() bool {
	return !m.inside && len(m.tokens) == 0 && m.answer.NumAccepted() == 0
}

// Mask implements infer.Matcher.
func (m *thinkingMatcher) Mask(dst []uint64) {
	if !m.thinks() {
		m.answer.Mask(dst)
		m.allowStart(dst)
		return
	}
	m.allowThoughts(dst)
}

// allowStart adds the tokens that begin the thoughts, where they may.
func (m *thinkingMatcher) allowStart(dst []uint64) {
	if m.mayStart() {
		for _, id := range m.starts {
			dst[id/64] |= 1 << (id % 64)
		}
	}
}

// allowThoughts writes the tokens of thoughts: all that do not end the output.
func (m *thinkingMatcher) allowThoughts(dst []uint64) {
	clear(dst)
	for i := range m.vocabSize / 64 {
		dst[i] = ^uint64(0)
	}
	if rest := m.vocabSize % 64; rest > 0 {
		dst[m.vocabSize/64] = 1<<rest - 1
	}
	for _, id := range m.eos {
		dst[id/64] &^= 1 << (id % 64)
	}
}

// Next implements infer.Matcher. Thoughts cost nothing worth counting.
func (m *thinkingMatcher) Next(output []int32, dst []uint64, b *infer.MaskBudget) (bool, error) {
	if len(output) < len(m.tokens) {
		m.Rollback(m.NumAccepted() - len(output))
	}
	for n := len(m.tokens); n < len(output) && m.isThought(output[n]); n++ {
		m.think(output[n])
	}
	if m.thinks() {
		if dst != nil {
			m.allowThoughts(dst)
		}
		return true, nil
	}
	ok, err := m.answer.Next(output[len(m.tokens):], dst, b)
	if ok && err == nil && dst != nil {
		m.allowStart(dst)
	}
	return ok, err
}

// isThought reports whether the next token belongs to the thoughts.
func (m *thinkingMatcher) isThought(token int32) bool {
	return m.thinks() || m.mayStart() && slices.Contains(m.starts, token)
}

// Accept implements infer.Matcher.
func (m *thinkingMatcher) Accept(token int32) error {
	if !m.isThought(token) {
		return m.answer.Accept(token)
	}
	m.think(token)
	return nil
}

func (m *thinkingMatcher) think(token int32) {
	before := len(m.text)
	m.text = append(m.text, m.tokenizer.TokenBytes(token)...)
	m.tokens = append(m.tokens, len(m.text))
	for _, end := range m.ends {
		m.ended = m.ended || bytes.Contains(m.text[max(0, before-len(end)):], end)
	}
}

// Rollback implements infer.Matcher.
func (m *thinkingMatcher) Rollback(n int) {
	fromAnswer := min(n, m.answer.NumAccepted())
	m.answer.Rollback(fromAnswer)
	if n -= fromAnswer; n == 0 {
		return
	}
	m.tokens, m.ended = m.tokens[:len(m.tokens)-n], false // the token that ended them was the last
	end := 0
	if k := len(m.tokens); k > 0 {
		end = m.tokens[k-1]
	}
	m.text = m.text[:end]
}

// NumAccepted implements infer.Matcher.
func (m *thinkingMatcher) NumAccepted() int { return len(m.tokens) + m.answer.NumAccepted() }
