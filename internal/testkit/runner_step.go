package testkit

import (
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// history returns the tokens of a sequence that are known after a step.
func history(seq *infer.ScheduledSequence) []int32 {
	return slices.Concat(seq.PromptTokenIDs, seq.OutputTokenIDs)
}

// fillCache checks a sequence's share of a plan against the cache, and writes it.
func (r *Runner) fillCache(seq *infer.ScheduledSequence) error {
	tokens := history(seq)
	end := seq.StartPos + len(seq.TokenIDs)
	if len(seq.TokenIDs) == 0 || end > len(tokens) || !slices.Equal(seq.TokenIDs, tokens[seq.StartPos:end]) {
		return fmt.Errorf("sequence %d: tokens %v at %d are not those of its history of %d", seq.SeqID, seq.TokenIDs, seq.StartPos, len(tokens))
	}
	if seq.Sample && end != len(tokens) {
		return fmt.Errorf("sequence %d: a sample is asked for at %d of %d tokens", seq.SeqID, end, len(tokens))
	}
	hash := uint64(0)
	for pos, token := range tokens[:end] {
		hash = mix(hash, token)
		slot, err := r.slot(seq, pos)
		if err != nil {
			return err
		}
		if pos >= seq.StartPos {
			r.cache[slot] = hash
		} else if r.cache[slot] != hash {
			return fmt.Errorf("sequence %d: slot %d does not hold position %d of its history", seq.SeqID, slot, pos)
		}
	}
	return nil
}

func (r *Runner) slot(seq *infer.ScheduledSequence, pos int) (int, error) {
	size := r.device.options.BlockSize
	if pos/size >= len(seq.BlockTable) {
		return 0, fmt.Errorf("sequence %d: no block for position %d", seq.SeqID, pos)
	}
	slot := int(seq.BlockTable[pos/size])*size + pos%size
	if slot < 0 || slot >= len(r.cache) {
		return 0, fmt.Errorf("sequence %d: block %d does not exist", seq.SeqID, seq.BlockTable[pos/size])
	}
	return slot, nil
}

func (r *Runner) sample(seq *infer.ScheduledSequence, res *infer.SequenceResult) {
	if seq.Params.NumPromptLogprobs >= 0 {
		last := min(seq.StartPos+len(seq.TokenIDs), len(seq.PromptTokenIDs)-1)
		for pos := seq.StartPos + 1; pos <= last; pos++ {
			res.PromptLogprobs = append(res.PromptLogprobs, Logprobs(seq.PromptTokenIDs[:pos], seq.PromptTokenIDs[pos], seq.Params.NumPromptLogprobs))
		}
	}
	if !seq.Sample {
		return
	}
	if d := r.device.options.Defer; d != nil && d(seq) {
		res.Deferred = true
		return
	}
	tokens := history(seq)
	for end := len(tokens) - seq.NumDraftTokens; ; end++ {
		before := tokens[:end]
		id := r.device.options.Next(before, seq.Params)
		res.NewTokenIDs = append(res.NewTokenIDs, id)
		if seq.Params.NumLogprobs >= 0 {
			res.Logprobs = append(res.Logprobs, Logprobs(before, id, seq.Params.NumLogprobs))
		}
		if end == len(tokens) || tokens[end] != id {
			tokens = append(slices.Clone(before), id)
			break
		}
	}
	res.DraftTokenIDs = r.propose(tokens, seq)
}

// propose guesses what follows, and is wrong now and then.
func (r *Runner) propose(tokens []int32, seq *infer.ScheduledSequence) (drafts []int32) {
	for range seq.NumProposals {
		id := r.device.options.Next(tokens, seq.Params)
		if hashOf(tokens)>>40%3 == 0 {
			id = (id + 1) % NumTokens
		}
		drafts = append(drafts, id)
		tokens = append(tokens, id)
	}
	return drafts
}

// mix folds a token into a hash that is never 0.
func mix(hash uint64, token int32) uint64 {
	hash = (hash ^ uint64(token+1)) * 0x9e3779b97f4a7c15
	hash ^= hash >> 29
	return hash | 1
}

// hashOf hashes a history.
func hashOf(history []int32) uint64 {
	hash := uint64(0)
	for _, token := range history {
		hash = mix(hash, token)
	}
	return hash
}

// NextToken draws a byte token, or rarely the end-of-sequence token, from a hash
// of history and seed. Half of the bytes are letters, the rest is anything, half
// characters included. It minds IgnoreEOS; MinTokens is left to whoever counts.
func NextToken(history []int32, params *infer.SamplingParams) int32 {
	h := hashOf(history) ^ params.Seed*0xbf58476d1ce4e5b9
	h ^= h >> 32
	switch {
	case h%37 == 0 && !params.IgnoreEOS && params.MinTokens == 0:
		return EOS
	case h>>8%2 == 0:
		return int32('a' + h>>16%26)
	default:
		return int32(h >> 16 % 256)
	}
}

// Continue returns what a sequence gets from a device with NextToken when nothing
// disturbs it: its output tokens, the closing one included.
func Continue(prompt []int32, params *infer.SamplingParams) []int32 {
	tokens := slices.Clone(prompt)
	for len(tokens)-len(prompt) < params.MaxTokens {
		id := NextToken(tokens, params)
		tokens = append(tokens, id)
		if stops, _ := params.StopsOn(id); stops {
			break
		}
	}
	return tokens[len(prompt):]
}

// Logprobs returns made-up log-probabilities that depend on the arguments only.
func Logprobs(history []int32, token int32, numTop int) infer.TokenLogprobs {
	h := hashOf(history)
	lp := infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: token, Logprob: -float32(h%1000) / 100, Rank: int32(h%50) + 1}}
	for i := range min(numTop, NumTokens) {
		lp.Top = append(lp.Top, infer.TokenLogprob{TokenID: int32((h + uint64(i)) % 256), Logprob: -float32(i), Rank: int32(i) + 1})
	}
	return lp
}
