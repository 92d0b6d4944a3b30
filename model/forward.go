package model

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
)

// forward computes a batch up to the last layer's attention and stores all
// keys and values: x is the residual stream before that attention is added,
// attn its output for the rows of queries, which is the batch with some of its
// sequences or their last rows. What follows is the work of computeLogits, as
// nobody reads the other rows again.
//
// It is the decoder of transformers' modeling_llama.py: pre-norm attention and
// SwiGLU, each added to the residual.
func (s *step) forward() {
	be, a, w := s.room.backend, &s.room.activations, &s.model.weights
	n, spec := len(s.batch.TokenIDs), s.model.attentionSpec()
	be.Embed(a.x, w.embed, s.batch.TokenIDs)
	for i := range w.layers {
		l := &w.layers[i]
		be.RMSNorm(a.h, a.x, l.inputNorm, s.model.eps(), n)
		be.Linear(a.qkv, a.h, l.qkv, n)
		be.RopeStore(a.qkv, spec, s.model.rope, s.room.kv, i, &s.batch)
		if i == len(w.layers)-1 {
			break
		}
		be.Attention(a.attn, a.qkv, spec, s.room.kv, i, &s.batch)
		s.addLayer(l, a.x, a.attn, n)
	}
	if len(s.queries.Seqs) > 0 {
		be.Attention(a.attn, a.qkv, spec, s.room.kv, len(w.layers)-1, &s.queries)
	}
}

// addLayer adds a layer's attention and then its MLP to n rows x of the residual
// stream.
func (s *step) addLayer(l *layer, x, attn compute.Buffer, n int) {
	be, a := s.room.backend, &s.room.activations
	be.LinearAdd(x, attn, l.o, n)
	be.RMSNorm(a.h, x, l.postNorm, s.model.eps(), n)
	be.Linear(a.gateUp, a.h, l.gateUp, n)
	be.SiluMul(a.act, a.gateUp, n)
	be.LinearAdd(x, a.act, l.down, n)
}

// computeLogits takes some rows of the batch from where forward left them to
// their logits, which are the first rows of the logits buffer then. len(rows) is
// at most its capacity.
func (s *step) computeLogits(rows []int32) {
	be, a, w := s.room.backend, &s.room.activations, &s.model.weights
	be.Gather(a.selectedX, a.x, rows)
	be.Gather(a.selectedAttn, a.attn, rows)
	s.addLayer(&w.layers[len(w.layers)-1], a.selectedX, a.selectedAttn, len(rows))
	be.RMSNorm(a.h, a.selectedX, w.norm, s.model.eps(), len(rows))
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
