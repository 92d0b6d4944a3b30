package ref

import (
	"math"
	"slices"
)

// Mixture is a layer of experts over rows of Hidden elements.
type Mixture struct {
	Hidden, Intermediate int
	Router               []float64   // [experts, Hidden]
	GateUp               [][]float64 // per expert [2*Intermediate, Hidden]
	Down                 [][]float64 // per expert [Hidden, Intermediate]
	PerToken             int
	Normalize            bool // the weights of the chosen sum to 1
}

// ExpertsAdd returns dst plus, for each row of x [n, Hidden], the outputs of its
// PerToken likeliest experts, weighted by their probabilities.
func ExpertsAdd(dst, x []float64, m Mixture) []float64 {
	out := append([]float64(nil), dst...)
	for start := 0; start < len(x); start += m.Hidden {
		row := x[start:][:m.Hidden]
		probs := softmax(Linear(row, m.Router, m.Hidden))
		order := make([]int, len(probs))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if probs[a] > probs[b] {
				return -1
			}
			return 1
		})
		chosen, sum := order[:m.PerToken], 1.0
		if m.Normalize {
			sum = 0
			for _, e := range chosen {
				sum += probs[e]
			}
		}
		for _, e := range chosen {
			act := SiluMul(Linear(row, m.GateUp[e], m.Hidden), m.Intermediate)
			for c, v := range Linear(act, m.Down[e], m.Intermediate) {
				out[start+c] += probs[e] / sum * v
			}
		}
	}
	return out
}

func softmax(x []float64) []float64 {
	out, largest, sum := make([]float64, len(x)), slices.Max(x), 0.0
	for i, v := range x {
		out[i] = math.Exp(v - largest)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}
