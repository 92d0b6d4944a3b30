package model

import "github.com/troupe-llm/troupe/infer"

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
