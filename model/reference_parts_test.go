package model_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// window returns how many positions a query of layer l sees, 0 = all.
func (o *reference) window(l int) int {
	switch {
	case o.is("Mistral", "Phi3"),
		o.is("Qwen2") && l >= o.int("max_window_layers"),
		o.is("Gemma2") && l%2 == 0,
		o.is("Gemma3") && (l+1)%o.int("sliding_window_pattern") != 0:
		return o.int("sliding_window")
	}
	return 0
}

// rotate turns every head of x by its position.
func (o *reference) rotate(l int, x []float64, pos int) {
	if o.is("SmolLM3") && o.m.Config["no_rope_layers"].([]int)[l] == 0 {
		return
	}
	dim := o.headDim
	if o.is("Phi3") {
		dim = int(float64(dim) * o.float("partial_rotary_factor"))
	}
	inverse, scale := o.turns(l, dim)
	for head := 0; head < len(x); head += o.headDim {
		for i, f := range inverse {
			sin, cos := math.Sincos(float64(pos) * f)
			sin, cos = sin*scale, cos*scale
			a, b := x[head+i], x[head+dim/2+i]
			x[head+i], x[head+dim/2+i] = a*cos-b*sin, b*cos+a*sin
		}
	}
}

// turns returns radians per position of the pairs of layer l, and what sine and
// cosine are multiplied by.
func (o *reference) turns(l, dim int) (inverse []float64, scale float64) {
	theta := o.float("rope_theta")
	local := o.is("Gemma3") && o.window(l) > 0
	if local {
		theta = o.float("rope_local_base_freq")
	}
	for i := range dim / 2 {
		inverse = append(inverse, 1/math.Pow(theta, float64(2*i)/float64(dim)))
	}
	scaling, ok := o.m.Config["rope_scaling"].(map[string]any)
	if !ok || local {
		return inverse, 1
	}
	factor, _ := scaling["factor"].(float64)
	switch o.architecture {
	case "Llama": // llama3
		for i, f := range inverse {
			inverse[i] = llama3(f, factor, float64(scaling["original_max_position_embeddings"].(int)))
		}
	case "Qwen2": // yarn
		inverse = yarn(inverse, theta, factor, float64(scaling["original_max_position_embeddings"].(int)))
		return inverse, 0.1*math.Log(factor) + 1
	case "Gemma3": // linear
		for i := range inverse {
			inverse[i] /= factor
		}
	case "Phi3": // longrope
		original := o.int("original_max_position_embeddings")
		name := "short_factor"
		if o.longest > original {
			name = "long_factor"
		}
		for i, f := range scaling[name].([]float64) {
			inverse[i] /= f
		}
		stretch := float64(o.int("max_position_embeddings")) / float64(original)
		return inverse, math.Sqrt(1 + math.Log(stretch)/math.Log(float64(original)))
	}
	return inverse, 1
}

// llama3 is _compute_llama3_parameters for one pair, with low and high 1 and 4.
func llama3(f, factor, original float64) float64 {
	switch length := 2 * math.Pi / f; {
	case length < original/4:
		return f
	case length > original:
		return f / factor
	default:
		smooth := (original/length - 1) / 3
		return (1-smooth)*f/factor + smooth*f
	}
}

// yarn is _compute_yarn_parameters with its defaults.
func yarn(inverse []float64, theta, factor, original float64) []float64 {
	dim := float64(2 * len(inverse))
	at := func(rotations float64) float64 {
		return dim * math.Log(original/(rotations*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := math.Max(math.Floor(at(32)), 0), math.Min(math.Ceil(at(1)), dim-1)
	if low == high {
		high += 0.001
	}
	out := make([]float64, len(inverse))
	for i, f := range inverse {
		ramp := math.Max(0, math.Min(1, (float64(i)-low)/(high-low)))
		out[i] = f/factor*ramp + f*(1-ramp)
	}
	return out
}

// mlp returns the MLP's output, or that of layer l's experts.
func (o *reference) mlp(l int, h []float64) []float64 {
	p := fmt.Sprintf("model.layers.%d.mlp.", l)
	if o.is("Mixtral") {
		p = fmt.Sprintf("model.layers.%d.block_sparse_moe.", l)
	}
	if o.weight(p+"gate.weight") == nil {
		return o.gated(p, h)
	}
	logits := o.linear(p+"gate", h)
	order := make([]int, len(logits))
	probs, total := make([]float64, len(logits)), 0.0
	for i, v := range logits {
		order[i], probs[i] = i, math.Exp(v)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(probs[b], probs[a]) })
	chosen := order[:o.int("num_experts_per_tok")]
	for _, e := range chosen {
		total += probs[e]
	}
	out := make([]float64, len(h))
	for _, e := range chosen {
		for i, v := range o.gated(fmt.Sprintf("%sexperts.%d.", p, e), h) {
			out[i] += probs[e] / total * v
		}
	}
	return out
}

func (o *reference) gated(p string, h []float64) []float64 {
	var gate, up []float64
	down := "down_proj"
	if o.is("Mixtral") {
		gate, up, down = o.linear(p+"w1", h), o.linear(p+"w3", h), "w2"
	} else if o.is("Phi3") {
		both := o.linear(p+"gate_up_proj", h)
		gate, up = both[:len(both)/2], both[len(both)/2:]
	} else {
		gate, up = o.linear(p+"gate_proj", h), o.linear(p+"up_proj", h)
	}
	for i, g := range gate {
		if o.gemma() {
			gate[i] = 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * up[i]
		} else {
			gate[i] = g / (1 + math.Exp(-g)) * up[i]
		}
	}
	return o.linear(p+down, gate)
}
