package model

import "github.com/troupe-llm/troupe/infer"

// ngramProposer guesses that what followed the last tokens where they stood
// before follows them again (prompt lookup decoding, A. Saxena 2023; vLLM's
// method "ngram"). It suits answers that repeat parts of the prompt or of
// themselves, and costs next to nothing.
type ngramProposer struct {
	min, max int // tokens that must agree, at least, and that are compared at most
	history  []int32
	guide    guide
}

// propose implements proposer.
func (n *ngramProposer) propose(plan *infer.StepPlan, res *infer.StepResult) error {
	n.guide.begin()
	for i := range plan.Sequences {
		p, r := &plan.Sequences[i], &res.Sequences[i]
		if !wantsProposals(p, r) {
			continue
		}
		n.history = append(n.history[:0], p.PromptTokenIDs...)
		n.history = append(n.history, outputBefore(p, 0)...)
		n.history = append(n.history, r.NewTokenIDs...)
		numOutput := len(n.history) - len(p.PromptTokenIDs)
		drafts := lookup(n.history, n.min, n.max, p.NumProposals)
		n.history = append(n.history, drafts...)
		r.DraftTokenIDs = drafts[:n.guide.trim(p.Matcher, n.history[len(p.PromptTokenIDs):], numOutput)]
	}
	return nil
}

// lookup finds the longest end of history, of at least shortest and at most longest
// tokens, that also stands earlier, of equally long ones the latest, and
// returns the k tokens that come after it there. Where that reaches the end of
// history it goes on with its own beginning, as a loop does. It returns nil if
// there is none.
func lookup(history []int32, shortest, longest, k int) []int32 {
	n := len(history)
	best, at := shortest-1, -1
	for i := n - 1; i > best && best < longest; i-- { // i: where what follows begins
		if history[i-1] != history[n-1] {
			continue
		}
		length := 1
		for limit := min(longest, i); length < limit && history[i-1-length] == history[n-1-length]; length++ {
		}
		if length > best {
			best, at = length, i
		}
	}
	if at < 0 {
		return nil
	}
	drafts := make([]int32, k)
	for i := range drafts {
		if at+i < n {
			drafts[i] = history[at+i]
		} else {
			drafts[i] = drafts[at+i-n]
		}
	}
	return drafts
}
