package model

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
)

// activations are the buffers of one step, in the order of the computation.
// The first group has a row per token of the step.
type activations struct {
	x      compute.Buffer // [tokens, hidden] the residual stream
	h      compute.Buffer // [tokens, hidden] normalized
	qkv    compute.Buffer // [tokens, (heads + 2 kv_heads) * head_dim]
	attn   compute.Buffer // [tokens, heads * head_dim]
	gateUp compute.Buffer // [tokens, 2 * intermediate]
	act    compute.Buffer // [tokens, intermediate]

	// Logits are computed for some rows only, a bounded number at a time: a
	// prompt's logits over a large vocabulary would not fit into memory.
	selected compute.Buffer // [logits rows, hidden]
	logits   compute.Buffer // [logits rows, vocab]
}

// maxLogitsBytes bounds the logits buffer; 128 rows of a vocabulary of 128k.
const maxLogitsBytes = 64 << 20

// newActivations allocates the buffers of steps of up to numTokens tokens.
func newActivations(b compute.Backend, c *Config, numTokens int) (*activations, error) {
	a := &activations{}
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	logitsRows := min(numTokens, max(1, maxLogitsBytes/(4*c.VocabSize)))
	for _, n := range []struct {
		buffer     *compute.Buffer
		rows, cols int
	}{
		{&a.x, numTokens, c.HiddenSize},
		{&a.h, numTokens, c.HiddenSize},
		{&a.qkv, numTokens, q + 2*kv},
		{&a.attn, numTokens, q},
		{&a.gateUp, numTokens, 2 * c.IntermediateSize},
		{&a.act, numTokens, c.IntermediateSize},
		{&a.selected, logitsRows, c.HiddenSize},
		{&a.logits, logitsRows, c.VocabSize},
	} {
		var err error
		if *n.buffer, err = b.NewBuffer(n.rows, n.cols); err != nil {
			a.free()
			return nil, err
		}
	}
	return a, nil
}

// free gives the buffers back; a nil receiver has none.
func (a *activations) free() {
	if a == nil {
		return
	}
	for _, b := range []compute.Buffer{a.x, a.h, a.qkv, a.attn, a.gateUp, a.act, a.selected, a.logits} {
		if b != nil {
			b.Free()
		}
	}
}

// forward computes the hidden states of all rows of a batch into a.x and
// stores their keys and values. It is the decoder of transformers'
// modeling_llama.py: pre-norm attention and SwiGLU, each added to the residual.
func (m *Model) forward(kv compute.KVCache, b *compute.Batch) {
	be, a, w := m.backend, m.activations, &m.weights
	n, eps := len(b.TokenIDs), float32(m.config.RMSNormEps)
	spec := m.attentionSpec()
	be.Embed(a.x, w.embed, b.TokenIDs)
	for i := range w.layers {
		l := &w.layers[i]
		be.RMSNorm(a.h, a.x, l.inputNorm, eps, n)
		be.Linear(a.qkv, a.h, l.qkv, n)
		be.RopeStore(a.qkv, spec, m.rope, kv, i, b)
		be.Attention(a.attn, a.qkv, spec, kv, i, b)
		be.LinearAdd(a.x, a.attn, l.o, n)

		be.RMSNorm(a.h, a.x, l.postNorm, eps, n)
		be.Linear(a.gateUp, a.h, l.gateUp, n)
		be.SiluMul(a.act, a.gateUp, n)
		be.LinearAdd(a.x, a.act, l.down, n)
	}
}

// computeLogits puts the logits of some rows of a.x into the first rows of
// a.logits. len(rows) is at most a.logits.Cap().
func (m *Model) computeLogits(rows []int32) {
	a, w := m.activations, &m.weights
	m.backend.Gather(a.selected, a.x, rows)
	m.backend.RMSNorm(a.h, a.selected, w.norm, float32(m.config.RMSNormEps), len(rows))
	m.backend.Linear(a.logits, a.h, w.lmHead, len(rows))
}

func (m *Model) attentionSpec() compute.AttentionSpec {
	c := &m.config
	return compute.AttentionSpec{
		NumHeads: c.NumHeads, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim,
		Scale: float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
}
