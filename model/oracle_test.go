package model_test

import (
	"math"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// oracle is the decoder once more: one token at a time in float64, without
// cache blocks, fusion or batches. It returns the logits after each token.
type oracle struct {
	m       *modelkit.Llama
	inverse []float64 // rope, radians per position
	keys    [][][]float64
	values  [][][]float64 // [layer][position][kv_heads * head_dim]
}

func newOracle(m *modelkit.Llama) *oracle {
	o := &oracle{m: m, keys: make([][][]float64, m.Layers), values: make([][][]float64, m.Layers)}
	for i := range m.HeadDim / 2 {
		o.inverse = append(o.inverse, 1/math.Pow(m.RopeTheta, 2*float64(i)/float64(m.HeadDim)))
	}
	return o
}

// product returns w · x.
func (o *oracle) product(name string, x []float64) []float64 {
	w := o.m.Tensor(name)
	out := make([]float64, w.Shape[0])
	for r := range out {
		for c, v := range x {
			out[r] += float64(w.Values[r*len(x)+c]) * v
		}
	}
	return out
}

func (o *oracle) norm(name string, x []float64) []float64 {
	w := o.m.Tensor(name)
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+o.m.RMSEps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * scale * float64(w.Values[i])
	}
	return out
}

func (o *oracle) rotate(x []float64, pos int) {
	half := o.m.HeadDim / 2
	for head := 0; head < len(x); head += o.m.HeadDim {
		for i := range half {
			sin, cos := math.Sincos(float64(pos) * o.inverse[i])
			a, b := x[head+i], x[head+half+i]
			x[head+i], x[head+half+i] = a*cos-b*sin, b*cos+a*sin
		}
	}
}

func (o *oracle) attention(layer int, q []float64) []float64 {
	dim, group := o.m.HeadDim, o.m.Heads/o.m.KVHeads
	out := make([]float64, len(q))
	for head := range o.m.Heads {
		at := head / group * dim
		weights := make([]float64, len(o.keys[layer]))
		top, sum := math.Inf(-1), 0.0
		for p, k := range o.keys[layer] {
			for i := range dim {
				weights[p] += q[head*dim+i] * k[at+i]
			}
			weights[p] /= math.Sqrt(float64(dim))
			top = max(top, weights[p])
		}
		for p := range weights {
			weights[p] = math.Exp(weights[p] - top)
			sum += weights[p]
		}
		for p, v := range o.values[layer] {
			for i := range dim {
				out[head*dim+i] += weights[p] / sum * v[at+i]
			}
		}
	}
	return out
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}

// step takes the token of the next position and returns its logits.
func (o *oracle) step(token int32) []float64 {
	embed := o.m.Tensor("model.embed_tokens.weight")
	x := make([]float64, o.m.Hidden)
	for i := range x {
		x[i] = float64(embed.Values[int(token)*o.m.Hidden+i])
	}
	for l := range o.m.Layers {
		o.layer(l, x)
	}
	head := "lm_head.weight"
	if o.m.Tied {
		head = embed.Name
	}
	return o.product(head, o.norm("model.norm.weight", x))
}

func (o *oracle) layer(l int, x []float64) {
	p := layerPrefix(l)
	h := o.norm(p+"input_layernorm.weight", x)
	q, k := o.product(p+"self_attn.q_proj.weight", h), o.product(p+"self_attn.k_proj.weight", h)
	pos := len(o.keys[l])
	o.rotate(q, pos)
	o.rotate(k, pos)
	o.keys[l] = append(o.keys[l], k)
	o.values[l] = append(o.values[l], o.product(p+"self_attn.v_proj.weight", h))
	add(x, o.product(p+"self_attn.o_proj.weight", o.attention(l, q)))

	h = o.norm(p+"post_attention_layernorm.weight", x)
	gate, up := o.product(p+"mlp.gate_proj.weight", h), o.product(p+"mlp.up_proj.weight", h)
	for i, g := range gate {
		gate[i] = g / (1 + math.Exp(-g)) * up[i]
	}
	add(x, o.product(p+"mlp.down_proj.weight", gate))
}
