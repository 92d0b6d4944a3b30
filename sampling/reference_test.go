package sampling_test

import (
	"math"
	"sort"

	"github.com/troupe-llm/troupe/infer"
)

// This file is a second, slow implementation of the sampler in float64: full
// sorts, maps, no shortcuts. The property tests compare the two.

// refUniform is number id of the SplitMix64 stream that belongs to (seed, pos).
func refUniform(seed uint64, pos int, id int) float64 {
	state := splitMix(seed + 0x9e3779b97f4a7c15*splitMix(uint64(pos)+0x9e3779b97f4a7c15))
	for range id + 1 { // a sequential generator, as published
		state += 0x9e3779b97f4a7c15
	}
	return (float64(splitMix(state)/4096) + 0.5) / (1 << 52)
}

func splitMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// refTransform returns the row after masks, biases and penalties.
func refTransform(logits []float32, p *infer.SamplingParams, prompt, output []int32) []float64 {
	row := make([]float64, len(logits))
	allowed := map[int32]bool{}
	for _, id := range p.AllowedTokenIDs {
		allowed[id] = true
	}
	for i, v := range logits {
		row[i] = float64(v)
		if p.AllowedTokenIDs != nil && !allowed[int32(i)] {
			row[i] = math.Inf(-1)
		}
	}
	for _, w := range p.BadWords {
		hit := len(output) >= len(w)-1
		for i := 0; hit && i < len(w)-1; i++ {
			hit = output[len(output)-len(w)+1+i] == w[i]
		}
		if hit {
			row[w[len(w)-1]] = math.Inf(-1)
		}
	}
	for _, b := range p.LogitBias {
		row[b.TokenID] = float64(float32(row[b.TokenID]) + b.Bias)
	}
	if len(output) < p.MinTokens {
		for _, id := range append(append([]int32{}, p.EOSTokenIDs...), p.StopTokenIDs...) {
			row[id] = math.Inf(-1)
		}
	}
	return refPenalize(row, p, prompt, output)
}

func refPenalize(row []float64, p *infer.SamplingParams, prompt, output []int32) []float64 {
	inPrompt, count := map[int32]bool{}, map[int32]int{}
	for _, id := range prompt {
		inPrompt[id] = true
	}
	for _, id := range output {
		count[id]++
	}
	for i := range row {
		id := int32(i)
		if inPrompt[id] || count[id] > 0 {
			if row[i] > 0 {
				row[i] /= p.RepetitionPenalty
			} else {
				row[i] *= p.RepetitionPenalty
			}
		}
		row[i] -= p.FrequencyPenalty * float64(count[id])
		if count[id] > 0 {
			row[i] -= p.PresencePenalty
		}
		row[i] = float64(float32(row[i]))
	}
	return row
}

// refSample returns the token that p draws from a row that has been transformed.
func refSample(row []float64, p *infer.SamplingParams, pos int) int32 {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return row[order[a]] > row[order[b]] })
	if p.Temperature == 0 {
		return int32(order[0])
	}
	best, winner := math.Inf(-1), int32(-1)
	for _, i := range refKeep(row, order, p) {
		x := (row[i] - row[order[0]]) / p.Temperature
		if score := x - math.Log(-math.Log(refUniform(p.Seed, pos, i))); score > best {
			best, winner = score, int32(i)
		}
	}
	return winner
}

// refKeep returns the tokens that min_p, top_k and top_p leave of order, by id.
func refKeep(row []float64, order []int, p *infer.SamplingParams) []int {
	prob := func(i int) float64 { return math.Exp((row[i] - row[order[0]]) / p.Temperature) }
	var kept []int
	var total float64
	for rank, i := range order {
		if p.TopK > 0 && rank >= p.TopK || prob(i) < p.MinP || math.IsInf(row[i], -1) {
			break
		}
		kept = append(kept, i)
		total += prob(i)
	}
	var sum float64
	for n, i := range kept {
		if sum += prob(i); sum >= p.TopP*total {
			kept = kept[:n+1]
			break
		}
	}
	sort.Ints(kept)
	return kept
}
