package model_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// reference is the decoders of all architectures in float64, one token at a time,
// written from the modelling code of Hugging Face's transformers (its
// models/*/modeling_*.py) as documentation, and from nothing of package model:
// what an architecture does is decided here by its name. Its window, the turns of
// a position and the gate of an MLP are reference_parts_test.go.
type reference struct {
	m              *modelkit.Tiny
	weights        map[string][]float32
	architecture   string
	longest        int           // tokens of context that are served
	keys, values   [][][]float64 // [layer][position][kv_heads * head_dim]
	hidden, vocab  int
	heads, kvHeads int
	headDim        int
}

func newReference(m *modelkit.Tiny, longest int) *reference {
	o := &reference{m: m, architecture: strings.TrimSuffix(m.Config["architectures"].([]string)[0], "ForCausalLM"), longest: longest}
	o.hidden, o.vocab, o.headDim = o.int("hidden_size"), o.int("vocab_size"), o.int("head_dim")
	o.heads, o.kvHeads = o.int("num_attention_heads"), o.int("num_key_value_heads")
	o.weights = map[string][]float32{}
	for _, t := range m.Tensors {
		o.weights[t.Name] = t.Values
	}
	layers := o.int("num_hidden_layers")
	o.keys, o.values = make([][][]float64, layers), make([][][]float64, layers)
	return o
}

func (o *reference) int(name string) int       { return o.m.Config[name].(int) }
func (o *reference) float(name string) float64 { return o.m.Config[name].(float64) }
func (o *reference) is(names ...string) bool   { return slices.Contains(names, o.architecture) }
func (o *reference) gemma() bool               { return o.is("Gemma2", "Gemma3") }

// weight returns a tensor's values, nil if there is none.
func (o *reference) weight(name string) []float32 { return o.weights[name] }

// linear is torch's Linear.
func (o *reference) linear(name string, x []float64) []float64 {
	w, bias := o.weight(name+".weight"), o.weight(name+".bias")
	out := make([]float64, len(w)/len(x))
	for r := range out {
		for c, v := range x {
			out[r] += float64(w[r*len(x)+c]) * v
		}
		if bias != nil {
			out[r] += float64(bias[r])
		}
	}
	return out
}

// norm is RMSNorm, of each n elements if x has more than the weight.
func (o *reference) norm(name string, x []float64) []float64 {
	w := o.weight(name + ".weight")
	out := make([]float64, len(x))
	for start := 0; start < len(x); start += len(w) {
		var sum float64
		for i := range w {
			sum += x[start+i] * x[start+i]
		}
		for i, v := range w {
			factor := float64(v)
			if o.gemma() {
				factor++
			}
			out[start+i] = x[start+i] / math.Sqrt(sum/float64(len(w))+o.float("rms_norm_eps")) * factor
		}
	}
	return out
}

// step takes the token of the next position and returns its logits.
func (o *reference) step(token int32) []float64 {
	x := make([]float64, o.hidden)
	for i := range x {
		x[i] = float64(o.weight("model.embed_tokens.weight")[int(token)*o.hidden+i])
		if o.gemma() {
			x[i] *= math.Sqrt(float64(o.hidden))
		}
	}
	for l := range o.keys {
		x = o.layer(l, x)
	}
	head := "lm_head"
	if o.m.Config["tie_word_embeddings"].(bool) {
		head = "model.embed_tokens"
	}
	logits := o.linear(head, o.norm("model.norm", x))
	if o.is("Gemma2") {
		limit := o.float("final_logit_softcapping")
		for i := range logits {
			logits[i] = math.Tanh(logits[i]/limit) * limit
		}
	}
	return logits
}

// layer returns the residual stream after layer l.
func (o *reference) layer(l int, x []float64) []float64 {
	p := fmt.Sprintf("model.layers.%d.", l)
	attention := o.selfAttention(l, o.norm(p+"input_layernorm", x))
	if !o.gemma() {
		x = sum(x, attention)
		return sum(x, o.mlp(l, o.norm(p+"post_attention_layernorm", x)))
	}
	x = sum(x, o.norm(p+"post_attention_layernorm", attention))
	h := o.mlp(l, o.norm(p+"pre_feedforward_layernorm", x))
	return sum(x, o.norm(p+"post_feedforward_layernorm", h))
}

func sum(x, y []float64) []float64 {
	out := slices.Clone(x)
	add(out, y)
	return out
}

// selfAttention stores the position's key and value and returns the projected
// output.
func (o *reference) selfAttention(l int, h []float64) []float64 {
	p := fmt.Sprintf("model.layers.%d.self_attn.", l)
	var q, k, v []float64
	if o.is("Phi3") {
		qkv := o.linear(p+"qkv_proj", h)
		nq, nkv := o.heads*o.headDim, o.kvHeads*o.headDim
		q, k, v = qkv[:nq], qkv[nq:nq+nkv], qkv[nq+nkv:]
	} else {
		q, k, v = o.linear(p+"q_proj", h), o.linear(p+"k_proj", h), o.linear(p+"v_proj", h)
	}
	if o.is("Qwen3", "Qwen3Moe", "Gemma3") {
		q, k = o.norm(p+"q_norm", q), o.norm(p+"k_norm", k)
	}
	pos := len(o.keys[l])
	o.rotate(l, q, pos)
	o.rotate(l, k, pos)
	o.keys[l], o.values[l] = append(o.keys[l], k), append(o.values[l], v)
	return o.linear(p+"o_proj", o.attend(l, q))
}

// attend returns softmax(q·k) v of every head over what the position sees.
func (o *reference) attend(l int, q []float64) []float64 {
	out := make([]float64, len(q))
	first := 0
	if w := o.window(l); w > 0 {
		first = max(0, len(o.keys[l])-w)
	}
	for head := range o.heads {
		at := head / (o.heads / o.kvHeads) * o.headDim
		query := q[head*o.headDim:][:o.headDim]
		weights, total := make([]float64, len(o.keys[l])), 0.0
		for p := first; p < len(weights); p++ {
			weights[p] = math.Exp(o.score(query, o.keys[l][p][at:]))
			total += weights[p]
		}
		for p := first; p < len(weights); p++ {
			for i := range o.headDim {
				out[head*o.headDim+i] += weights[p] / total * o.values[l][p][at+i]
			}
		}
	}
	return out
}

func (o *reference) score(q, k []float64) float64 {
	score, scale := 0.0, float64(o.headDim)
	for i, v := range q {
		score += v * k[i]
	}
	if o.gemma() {
		scale = float64(o.int("query_pre_attn_scalar"))
	}
	score /= math.Sqrt(scale)
	if o.is("Gemma2") {
		limit := o.float("attn_logit_softcapping")
		score = math.Tanh(score/limit) * limit
	}
	return score
}
