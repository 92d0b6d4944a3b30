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
	selectedX    compute.Buffer // [logits rows, hidden] rows of x
	selectedAttn compute.Buffer // [logits rows, heads * head_dim] rows of attn
	logits       compute.Buffer // [logits rows, vocab]
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
		{&a.selectedX, logitsRows, c.HiddenSize},
		{&a.selectedAttn, logitsRows, q},
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
	for _, b := range []compute.Buffer{a.x, a.h, a.qkv, a.attn, a.gateUp, a.act, a.selectedX, a.selectedAttn, a.logits} {
		if b != nil {
			b.Free()
		}
	}
}

// forward computes a batch up to the last layer's attention and stores all
// keys and values: a.x is the residual stream before that attention is added,
// a.attn its output for the rows of queries, which is b with some of its
// sequences or their last rows. What follows is the work of computeLogits, as
// nobody reads the other rows again.
//
// It is the decoder of transformers' modeling_llama.py: pre-norm attention and
// SwiGLU, each added to the residual.
func (m *Model) forward(kv compute.KVCache, b, queries *compute.Batch) {
	be, a, w := m.backend, m.activations, &m.weights
	n, spec := len(b.TokenIDs), m.attentionSpec()
	be.Embed(a.x, w.embed, b.TokenIDs)
	for i := range w.layers {
		l := &w.layers[i]
		be.RMSNorm(a.h, a.x, l.inputNorm, m.eps(), n)
		be.Linear(a.qkv, a.h, l.qkv, n)
		be.RopeStore(a.qkv, spec, m.rope, kv, i, b)
		if i == len(w.layers)-1 {
			break
		}
		be.Attention(a.attn, a.qkv, spec, kv, i, b)
		m.addLayer(l, a.x, a.attn, n)
	}
	if len(queries.Seqs) > 0 {
		be.Attention(a.attn, a.qkv, spec, kv, len(w.layers)-1, queries)
	}
}

// addLayer adds a layer's attention and then its MLP to n rows x of the residual
// stream.
func (m *Model) addLayer(l *layer, x, attn compute.Buffer, n int) {
	be, a := m.backend, m.activations
	be.LinearAdd(x, attn, l.o, n)
	be.RMSNorm(a.h, x, l.postNorm, m.eps(), n)
	be.Linear(a.gateUp, a.h, l.gateUp, n)
	be.SiluMul(a.act, a.gateUp, n)
	be.LinearAdd(x, a.act, l.down, n)
}

// computeLogits takes some rows of the batch from where forward left them to
// their logits, which are the first rows of a.logits then. len(rows) is at most
// a.logits.Cap().
func (m *Model) computeLogits(rows []int32) {
	be, a, w := m.backend, m.activations, &m.weights
	be.Gather(a.selectedX, a.x, rows)
	be.Gather(a.selectedAttn, a.attn, rows)
	m.addLayer(&w.layers[len(w.layers)-1], a.selectedX, a.selectedAttn, len(rows))
	be.RMSNorm(a.h, a.selectedX, w.norm, m.eps(), len(rows))
	be.Linear(a.logits, a.h, w.lmHead, len(rows))
}

func (m *Model) eps() float32 { return float32(m.config.RMSNormEps) }

func (m *Model) attentionSpec() compute.AttentionSpec {
	c := &m.config
	return compute.AttentionSpec{
		NumHeads: c.NumHeads, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim,
		Scale: float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
}
