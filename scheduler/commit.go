package scheduler

import (
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// Output is what one sequence got from a step, or its end.
type Output struct {
	Seq         *Sequence
	NewTokenIDs []int32 // tokens drawn; empty if none. Never changed afterwards
	// NumOutputTokens counts all tokens of the sequence up to and with these.
	NumOutputTokens int
	Logprobs        []infer.TokenLogprobs // parallel to NewTokenIDs if NumLogprobs >= 0
	// PromptLogprobs are those newly known, in order; each position from 1 on is
	// reported once, whatever is computed anew.
	PromptLogprobs []infer.TokenLogprobs
	FinishReason   infer.FinishReason // FinishNone until the terminal Output
	StopReason     infer.StopReason
	// NumCachedTokens counts the prompt tokens that were found in the prefix
	// cache when the sequence was selected first.
	NumCachedTokens int
	// NumDraftTokens counts the draft tokens that the step verified, and
	// NumAcceptedTokens those of them that were drawn.
	NumDraftTokens, NumAcceptedTokens int

	Err error // with FinishError only
}

// Commit takes the result of the plan outstanding and decides who is finished:
// by end-of-sequence and stop tokens, max_tokens, and the context length. It
// returns one Output for each sequence that got something or ended, in plan
// order; the slice is reused by the next Commit. A result that is not the
// plan's is a broken runner: Commit panics.
func (s *Scheduler) Commit(res *infer.StepResult) []Output {
	if !s.inFlight || res.StepID != s.plan.StepID || len(res.Sequences) != len(s.batch) {
		panic(fmt.Sprintf("scheduler: result of step %d with %d sequences, but step %d with %d is outstanding=%t",
			res.StepID, len(res.Sequences), s.plan.StepID, len(s.batch), s.inFlight))
	}
	numEnded, numOld := 0, len(s.outputs)
	s.outputs = slices.Grow(s.outputs[:0], len(s.batch)) // they are large: filled in place
	for i, seq := range s.batch {
		n := len(s.outputs)
		out := &s.outputs[:n+1][n]
		s.commitSequence(seq, &res.Sequences[i], out)
		if seq.ended {
			numEnded++
		}
		if seq.ended || len(out.NewTokenIDs) > 0 || len(out.PromptLogprobs) > 0 {
			s.outputs = s.outputs[:n+1]
		}
	}
	// No pointer to a sequence stays behind the outputs: it might outlive it.
	clear(s.outputs[len(s.outputs):max(numOld, len(s.batch))])
	if numEnded > 0 {
		s.running = slices.DeleteFunc(s.running, func(q *Sequence) bool { return q.ended })
	}
	clear(s.batch)
	clear(s.plan.Sequences)
	s.inFlight = false
	return s.outputs
}

// commitSequence applies one sequence's share of a result, and fills its output.
func (s *Scheduler) commitSequence(seq *Sequence, res *infer.SequenceResult, out *Output) {
	start, n := seq.numComputed, seq.numScheduled
	numDrafts := seq.numDrafts
	seq.numScheduled = 0
	if seq.aborted {
		if res.Err != nil {
			s.cache.Discard(&seq.table)
		} else {
			s.cache.Release(&seq.table) // what this step wrote was never committed
		}
		*out = s.end(seq, infer.FinishAbort)
		return
	}
	promptLogprobs, err := seq.newPromptLogprobs(start, n, res)
	if err == nil {
		err = checkTokens(seq, start+n, res)
	}
	if err != nil {
		s.cache.Discard(&seq.table)
		*out = s.end(seq, infer.FinishError)
		out.Err = err
		return
	}
	accepted := max(len(res.NewTokenIDs)-1, 0)
	seq.numComputed += n - numDrafts + accepted
	if res.Deferred { // its last token is computed again, its drafts are lost
		seq.numComputed--
		seq.numDrafts, numDrafts = 0, 0
	}
	s.settleDrafts(seq, accepted)
	seq.chunked = seq.remaining() > 0
	s.cache.Commit(&seq.table, seq.tokens[:seq.numComputed])
	seq.numPromptLogprobs += len(promptLogprobs)
	s.advance(seq, res, out)
	out.PromptLogprobs = promptLogprobs
	out.NumDraftTokens, out.NumAcceptedTokens = numDrafts, accepted
}

// checkTokens returns the error of a sequence's result: its own, or that it does
// not hold the tokens asked for. end is the number of tokens computed now.
func checkTokens(seq *Sequence, end int, res *infer.SequenceResult) error {
	if res.Err != nil {
		return res.Err
	}
	low, high := 0, 0
	if end == len(seq.tokens)+seq.numDrafts && seq.Params.MaxTokens > 0 {
		low, high = 1, 1+seq.numDrafts
		if res.Deferred {
			low, high = 0, 0
		}
	}
	if n := len(res.NewTokenIDs); n < low || n > high {
		return fmt.Errorf("scheduler: sequence %d got %d tokens from a step, wanted %d to %d", seq.ID, n, low, high)
	}
	return seq.checkDrafts(res)
}

// newPromptLogprobs returns the prompt logprobs of a result that were not
// reported before. The step computed n tokens from position start on.
func (q *Sequence) newPromptLogprobs(start, n int, res *infer.SequenceResult) ([]infer.TokenLogprobs, error) {
	if res.Err != nil || !q.wantsPromptLogprobs() {
		return nil, nil
	}
	want := max(min(start+n, len(q.Prompt)-1)-start, 0)
	if len(res.PromptLogprobs) != want {
		return nil, fmt.Errorf("scheduler: sequence %d got %d prompt logprobs from a step, wanted %d",
			q.ID, len(res.PromptLogprobs), want)
	}
	return res.PromptLogprobs[min(q.numPromptLogprobs-start, want):], nil
}

// advance appends what was drawn and decides whether the sequence is finished.
func (s *Scheduler) advance(seq *Sequence, res *infer.SequenceResult, out *Output) {
	first := seq.remaining() == 0 && seq.numOutputTokens() == 0
	if first {
		s.deltas.promptTokensDone += len(seq.Prompt) - seq.numCachedTokens
	}
	before := len(seq.tokens)
	reason, stop := s.append(seq, res.NewTokenIDs)
	if reason != infer.FinishNone {
		s.cache.Release(&seq.table)
		*out = s.end(seq, reason)
		out.StopReason = stop
	} else {
		*out = Output{Seq: seq, NumOutputTokens: seq.numOutputTokens(), NumCachedTokens: seq.numCachedTokens}
		s.keepDrafts(seq, res.DraftTokenIDs)
	}
	if before < len(seq.tokens) {
		out.NewTokenIDs = seq.tokens[before:len(seq.tokens):len(seq.tokens)]
		out.Logprobs = res.Logprobs[:min(len(out.NewTokenIDs), len(res.Logprobs))]
	}
}

// append adds what was drawn up to the token that finishes the sequence, if one
// does; what was drawn after that one never was.
func (s *Scheduler) append(seq *Sequence, drawn []int32) (infer.FinishReason, infer.StopReason) {
	if len(drawn) == 0 {
		if seq.Params.MaxTokens == 0 && seq.remaining() == 0 {
			return infer.FinishLength, infer.StopReason{} // a prompt that is only scored
		}
		return infer.FinishNone, infer.StopReason{}
	}
	for _, id := range drawn {
		seq.tokens = append(seq.tokens, id)
		s.deltas.generationTokens++
		if reason, stop := s.finishReason(seq, id); reason != infer.FinishNone {
			return reason, stop
		}
	}
	return infer.FinishNone, infer.StopReason{}
}

// finishReason says whether drawn, the sequence's last token, finishes it. The
// sampler has masked stop tokens before min_tokens already.
func (s *Scheduler) finishReason(seq *Sequence, drawn int32) (infer.FinishReason, infer.StopReason) {
	if stops, byRequest := seq.Params.StopsOn(drawn); byRequest {
		return infer.FinishStop, infer.StopReason{TokenID: drawn, ByToken: true}
	} else if stops {
		return infer.FinishStop, infer.StopReason{}
	}
	if seq.numOutputTokens() >= seq.Params.MaxTokens || len(seq.tokens) >= s.config.MaxModelLen {
		return infer.FinishLength, infer.StopReason{}
	}
	return infer.FinishNone, infer.StopReason{}
}
