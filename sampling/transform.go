package sampling

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

var negInf = float32(math.Inf(-1))

func atPosition(pos int) string { return " at output position " + strconv.Itoa(pos) }

// changes reports whether transform would do anything to the row.
func (r *Row) changes() bool {
	p, pos := r.Params, len(r.Output)
	return r.Allowed != nil || p.AllowedTokenIDs != nil || len(p.BadWords) > 0 || len(p.LogitBias) > 0 ||
		pos < p.MinTokens || penalizes(p)
}

func penalizes(p *infer.SamplingParams) bool {
	return p.PresencePenalty != 0 || p.FrequencyPenalty != 0 || repeats(p)
}

// repeats reports whether the repetition penalty is on. 0 is the zero value of
// the struct, not a penalty: dividing by it would make the row infinite.
func repeats(p *infer.SamplingParams) bool {
	return p.RepetitionPenalty != 1 && p.RepetitionPenalty > 0
}

// transform applies masks, biases and penalties to the row. Token ids outside
// the vocabulary are ignored throughout.
func (s *Sampler) transform(r Row) {
	p := r.Params
	if r.Allowed != nil {
		keepBits(r.Logits, r.Allowed)
	}
	if p.AllowedTokenIDs != nil {
		keepOnly(r.Logits, p.AllowedTokenIDs)
	}
	for _, word := range p.BadWords {
		maskBadWord(r.Logits, word, r.Output)
	}
	for _, b := range p.LogitBias {
		if s.inVocab(b.TokenID) {
			r.Logits[b.TokenID] += b.Bias
		}
	}
	if len(r.Output) < p.MinTokens && !r.mustEnd() {
		// As in vLLM, ignore_eos does not lift this mask.
		mask(r.Logits, p.EOSTokenIDs)
		mask(r.Logits, p.StopTokenIDs)
	}
	if penalizes(p) {
		s.penalize(r)
	}
}

// mustEnd reports whether a grammar allows nothing but the end of the sequence.
func (r *Row) mustEnd() bool {
	allowed := 0
	for _, word := range r.Allowed {
		allowed += bits.OnesCount64(word)
	}
	for _, id := range r.Params.EOSTokenIDs {
		if i := int(id) / 64; i < len(r.Allowed) && r.Allowed[i]>>(id%64)&1 != 0 {
			allowed--
		}
	}
	return r.Allowed != nil && allowed == 0
}

// keepBits masks every token whose bit is not set.
func keepBits(logits []float32, allowed []uint64) {
	for i, word := range allowed {
		from, to := min(i*64, len(logits)), min(i*64+64, len(logits))
		switch word {
		case 0:
			fill(logits[from:to])
		case math.MaxUint64:
		default:
			for j := range logits[from:to] {
				if word>>j&1 == 0 {
					logits[from+j] = negInf
				}
			}
		}
	}
	fill(logits[min(len(allowed)*64, len(logits)):])
}

func (s *Sampler) inVocab(id int32) bool { return uint32(id) < uint32(s.vocabSize) }

func mask(logits []float32, ids []int32) {
	for _, id := range ids {
		if uint32(id) < uint32(len(logits)) {
			logits[id] = negInf
		}
	}
}

// keepOnly masks everything but the ids in allowed, which is sorted.
func keepOnly(logits []float32, allowed []int32) {
	next := 0
	for _, id := range allowed {
		if int(id) < next || int(id) >= len(logits) {
			continue // a duplicate, or no token
		}
		fill(logits[next:id])
		next = int(id) + 1
	}
	fill(logits[next:])
}

func fill(logits []float32) {
	for i := range logits {
		logits[i] = negInf
	}
}

// maskBadWord masks the last token of word if the output ends in the rest of it.
func maskBadWord(logits []float32, word, output []int32) {
	if len(word) == 0 {
		return
	}
	head, last := word[:len(word)-1], word[len(word)-1]
	if len(output) >= len(head) && slices.Equal(head, output[len(output)-len(head):]) {
		mask(logits, []int32{last})
	}
}

// done marks a token in counts whose penalties have been applied.
const done = -1

// penalize applies the penalties once per distinct token: repetition to tokens of
// prompt and output, then frequency and presence to those of the output, as
// vllm/model_executor/layers/utils.py:apply_penalties does.
func (s *Sampler) penalize(r Row) {
	p := r.Params
	if s.counts == nil {
		s.counts = make([]int32, s.vocabSize)
	}
	for _, id := range r.Output {
		if s.inVocab(id) {
			s.counts[id]++
		}
	}
	for _, id := range r.Output {
		if !s.inVocab(id) || s.counts[id] == done {
			continue
		}
		v := repetition(float64(r.Logits[id]), p)
		v -= p.FrequencyPenalty * float64(s.counts[id])
		r.Logits[id] = finite(v - p.PresencePenalty)
		s.counts[id] = done
	}
	if repeats(p) {
		for _, id := range r.Prompt {
			if s.inVocab(id) && s.counts[id] != done {
				r.Logits[id] = finite(repetition(float64(r.Logits[id]), p))
				s.counts[id] = done
			}
		}
		s.forget(r.Prompt)
	}
	s.forget(r.Output)
}

func repetition(logit float64, p *infer.SamplingParams) float64 {
	switch {
	case !repeats(p):
		return logit
	case logit > 0:
		return logit / p.RepetitionPenalty
	}
	return logit * p.RepetitionPenalty
}

// finite converts a penalized logit. A tiny repetition penalty can push it past
// the range of float32, which is not the model's fault: it stays finite there.
func finite(v float64) float32 {
	if math.IsInf(v, -1) {
		return negInf // masked before
	}
	return float32(max(-math.MaxFloat32, min(v, math.MaxFloat32)))
}

// forget sets the counts of ids back to 0.
func (s *Sampler) forget(ids []int32) {
	for _, id := range ids {
		if s.inVocab(id) {
			s.counts[id] = 0
		}
	}
}
