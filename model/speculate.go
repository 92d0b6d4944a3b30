package model

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// Speculative decoding: a proposer guesses draft tokens that the next step
// verifies, all of them in one pass of the model. A draft is accepted if it is the
// very token that is drawn at its place. As a draw is a pure function of (logits,
// seed, position), the output is that of a run without speculation, token by
// token, whatever is guessed; the target's distribution is kept because nothing
// else is ever drawn from.
//
// Compared with the rejection sampling of Leviathan et al., "Fast Inference from
// Transformers via Speculative Decoding" (2023): against a guess without a
// distribution (n-grams) the probability of acceptance is the same. Against a
// draft model it is that of two Gumbel-max draws with common noise, which is at
// least (1-d)/(1+d) at a total variation distance of d, where rejection sampling
// has 1-d: the price of giving the same tokens with and without.

// proposer guesses what may follow the tokens that a step gave. It fills in
// DraftTokenIDs of the results, whose memory is the receiver's afterwards.
type proposer interface {
	propose(plan *infer.StepPlan, res *infer.StepResult) error
}

// Speculation says what proposes draft tokens: the draft model, or else n-grams
// that occurred before.
type Speculation struct {
	NumTokens int // most draft tokens of a sequence and step; >= 1
	// Draft is the folder of a model with the same tokenizer; nil = n-grams.
	Draft *Folder
	// LookupMin and LookupMax are how many of the last tokens must occur before,
	// at least, and are compared, at most; n-grams only.
	LookupMin, LookupMax int
}

// readDraftConfig looks at the draft model before any weight is loaded.
func (m *Model) readDraftConfig(o *Options) error {
	if o.Speculation == nil || o.Speculation.Draft == nil {
		return nil
	}
	f := o.Speculation.Draft
	b, err := f.File("config.json")
	if err != nil {
		return unreadable(f, "config.json", err)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return err
	}
	if c.VocabSize != m.config.VocabSize {
		return infer.Errorf(infer.CodeInvalid, "speculative_config",
			"the draft model has a vocabulary of %d tokens, the model one of %d: they must have the same tokenizer", c.VocabSize, m.config.VocabSize)
	}
	o.draftKV = compute.KVSpec{NumLayers: c.NumLayers, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim}
	return nil
}

// loadDraft loads the draft model for caches of the same blocks as the target's.
func (m *Model) loadDraft(o *Options) (err error) {
	if o.draftKV.NumLayers == 0 {
		return nil
	}
	m.draft, err = Load(o.Speculation.Draft, Options{
		Backend: o.Backend, DType: o.DType, KVCacheDType: o.KVCacheDType, PrefaultKVCache: o.PrefaultKVCache,
		MaxModelLen: m.sizes.maxModelLen, BlockSize: m.sizes.kv.BlockSize, NumBlocksOverride: m.sizes.kv.NumBlocks,
		// A pass computes what the target computed and a token more per sequence.
		MaxNumSeqs: o.MaxNumSeqs, MaxNumBatchedTokens: o.MaxNumBatchedTokens + o.MaxNumSeqs,
		GenerationConfig: "vllm", WeightsCache: o.WeightsCache, Notice: o.Notice,
	})
	if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	return nil
}

// newProposer returns what a runner guesses with, nil without speculation. A draft
// model computes with the runner's threads, and its memory goes with the runner's.
func (m *Model) newProposer(own *room) (proposer, error) {
	switch {
	case m.speculation == nil:
		return nil, nil
	case m.draft == nil:
		return &ngramProposer{min: m.speculation.LookupMin, max: m.speculation.LookupMax}, nil
	}
	r, err := m.draft.furnish(own.backend)
	if err != nil {
		return nil, err
	}
	return &draftProposer{pass: &draftPass{pass: pass{model: m.draft, room: r}}, sampler: sampling.NewSampler(m.config.VocabSize)}, nil
}

func (m *Model) numSpecTokens() int {
	if m.speculation == nil {
		return 0
	}
	return m.speculation.NumTokens
}

// numLookaheadSlots returns how far beyond a step's tokens a draft model writes.
func (m *Model) numLookaheadSlots() int {
	if m.draft == nil {
		return 0
	}
	return m.speculation.NumTokens
}

// outputBefore returns the output in front of the draw after numDrafts drafts.
func outputBefore(p *infer.ScheduledSequence, numDrafts int) []int32 {
	return p.OutputTokenIDs[:len(p.OutputTokenIDs)-p.NumDraftTokens+numDrafts]
}

// stands reports whether the first numDrafts drafts have all been accepted, so
// that the logits behind them are those of the sequence.
func stands(p *infer.ScheduledSequence, res *infer.SequenceResult, numDrafts int) bool {
	if numDrafts == 0 {
		return true
	}
	drafts := p.OutputTokenIDs[len(p.OutputTokenIDs)-p.NumDraftTokens:]
	return len(res.NewTokenIDs) == numDrafts && res.NewTokenIDs[numDrafts-1] == drafts[numDrafts-1]
}

// wantsProposals reports whether drafts for a sequence's next step are of use:
// not if the token just drawn ends it.
func wantsProposals(p *infer.ScheduledSequence, res *infer.SequenceResult) bool {
	if p.NumProposals == 0 || res.Err != nil || len(res.NewTokenIDs) == 0 {
		return false
	}
	for _, id := range res.NewTokenIDs {
		if stops, _ := p.Params.StopsOn(id); stops {
			return false
		}
	}
	return true
}
