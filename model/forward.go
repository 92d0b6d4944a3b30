package model

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
)

// pass is a forward pass of a model over one batch after another.
type pass struct {
	model   *Model
	room    *room
	batch   compute.Batch
	queries compute.Batch // the batch with only those parts of sequences whose logits are needed
}

// forward computes the batch up to the last layer's attention and stores all
// keys and values: x is the residual stream before that attention is added,
// attn its output for the rows of queries, which is the batch with some of its
// sequences or their last rows. What follows is the work of computeLogits, as
// nobody reads the other rows again.
//
// It is the decoder of transformers' modeling_llama.py: pre-norm attention and
// SwiGLU, each added to the residual.
func (p *pass) forward() {
	be, a, w := p.room.backend, &p.room.activations, &p.model.weights
	n, spec := len(p.batch.TokenIDs), p.model.attentionSpec()
	be.Embed(a.x, w.embed, p.batch.TokenIDs)
	for i := range w.layers {
		l := &w.layers[i]
		be.RMSNorm(a.h, a.x, l.inputNorm, p.model.eps(), n)
		be.Linear(a.qkv, a.h, l.qkv, n)
		be.RopeStore(a.qkv, spec, p.model.rope, p.room.kv, i, &p.batch)
		if i == len(w.layers)-1 {
			break
		}
		be.Attention(a.attn, a.qkv, spec, p.room.kv, i, &p.batch)
		p.addLayer(l, a.x, a.attn, n)
	}
	if len(p.queries.Seqs) > 0 {
		be.Attention(a.attn, a.qkv, spec, p.room.kv, len(w.layers)-1, &p.queries)
	}
}

// addLayer adds a layer's attention and then its MLP to n rows x of the residual
// stream.
func (p *pass) addLayer(l *layer, x, attn compute.Buffer, n int) {
	be, a := p.room.backend, &p.room.activations
	be.LinearAdd(x, attn, l.o, n)
	be.RMSNorm(a.h, x, l.postNorm, p.model.eps(), n)
	be.Linear(a.gateUp, a.h, l.gateUp, n)
	be.SiluMul(a.act, a.gateUp, n)
	be.LinearAdd(x, a.act, l.down, n)
}

// computeLogits takes some rows of the batch from where forward left them to
// their logits, which are the first rows of the logits buffer then. len(rows) is
// at most its capacity.
func (p *pass) computeLogits(rows []int32) {
	be, a, w := p.room.backend, &p.room.activations, &p.model.weights
	be.Gather(a.selectedX, a.x, rows)
	be.Gather(a.selectedAttn, a.attn, rows)
	p.addLayer(&w.layers[len(w.layers)-1], a.selectedX, a.selectedAttn, len(rows))
	be.RMSNorm(a.h, a.selectedX, w.norm, p.model.eps(), len(rows))
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
