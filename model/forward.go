package model

import (
	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/model/arch"
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
// It is the decoder of every architecture of package arch: pre-norm attention and
// a gated MLP, each added to the residual. What a config or a layer does not ask
// for is left out.
func (p *pass) forward() {
	be, a, w, c := p.room.backend, &p.room.activations, &p.model.weights, &p.model.config
	n := len(p.batch.TokenIDs)
	be.Embed(a.x, w.embed, p.batch.TokenIDs)
	if c.EmbeddingScale != 1 {
		be.Scale(a.x, float32(c.EmbeddingScale), n)
	}
	for i := range w.layers {
		p.project(i, n)
		if i == len(w.layers)-1 {
			break
		}
		be.Attention(a.attn, a.qkv, p.model.attention(i), p.room.kv, i, &p.batch)
		p.addLayer(&w.layers[i], a.x, a.attn, n)
	}
	if last := len(w.layers) - 1; len(p.queries.Seqs) > 0 {
		be.Attention(a.attn, a.qkv, p.model.attention(last), p.room.kv, last, &p.queries)
	}
}

// project computes layer i's queries, keys and values and stores the latter two.
func (p *pass) project(i, n int) {
	be, a, l, spec := p.room.backend, &p.room.activations, &p.model.weights.layers[i], p.model.attention(i)
	be.RMSNorm(a.h, a.x, l.attentionNorm, p.model.eps(), n)
	be.Linear(a.qkv, a.h, l.qkv, n)
	if l.qkvBias != nil {
		be.AddBias(a.qkv, l.qkvBias, n)
	}
	if l.qNorm != nil {
		be.HeadNorm(a.qkv, spec, l.qNorm, l.kNorm, p.model.eps(), n)
	}
	be.RopeStore(a.qkv, spec, p.model.rope(i), p.room.kv, i, &p.batch)
}

// addLayer adds a layer's attention and then its MLP to n rows x of the residual
// stream.
func (p *pass) addLayer(l *layer, x, attn compute.Buffer, n int) {
	be, a := p.room.backend, &p.room.activations
	p.addProduct(x, n, product{attn, l.o, l.postAttention})
	be.RMSNorm(a.h, x, l.mlpNorm, p.model.eps(), n)
	if l.experts != nil {
		be.ExpertsAdd(x, a.h, l.experts, n)
		return
	}
	be.Linear(a.gateUp, a.h, l.gateUp, n)
	if p.model.config.Activation == arch.GELU {
		be.GeluMul(a.act, a.gateUp, n)
	} else {
		be.SiluMul(a.act, a.gateUp, n)
	}
	p.addProduct(x, n, product{a.act, l.down, l.postMLP})
}

// product is src · wᵀ, normalized if there is a norm.
type product struct {
	src  compute.Buffer
	w    compute.Matrix
	norm compute.Vector // nil = none
}

// addProduct adds a product to n rows x.
func (p *pass) addProduct(x compute.Buffer, n int, add product) {
	be, a := p.room.backend, &p.room.activations
	if add.norm == nil {
		be.LinearAdd(x, add.src, add.w, n)
		return
	}
	be.Linear(a.h, add.src, add.w, n)
	be.RMSNormAdd(x, a.h, add.norm, p.model.eps(), n)
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
	if limit := p.model.config.LogitSoftCap; limit > 0 {
		be.SoftCap(a.logits, float32(limit), len(rows))
	}
}

func (m *Model) eps() float32 { return float32(m.config.RMSNormEps) }

// attention returns the shape of layer i's attention.
func (m *Model) attention(i int) compute.AttentionSpec {
	c := &m.config
	return compute.AttentionSpec{
		NumHeads: c.NumHeads, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim,
		Scale: float32(c.AttentionScale), SoftCap: float32(c.AttentionSoftCap), Window: c.Layers[i].Window,
	}
}

// rope returns layer i's rotations.
func (m *Model) rope(i int) compute.Rope {
	if r := m.config.Layers[i].Rope; r != arch.NoRope {
		return m.ropes[r]
	}
	return m.unrotated
}

// makeRopes makes the tables of the context that is served.
func (m *Model) makeRopes() (err error) {
	c, n := &m.config, m.sizes.maxModelLen
	m.ropes = make([]compute.Rope, len(c.Ropes))
	for i := range c.Ropes {
		if m.ropes[i], err = m.backend.NewRope(c.Ropes[i].Table(n)); err != nil {
			return err
		}
	}
	for _, l := range c.Layers {
		if l.Rope == arch.NoRope {
			m.unrotated, err = m.backend.NewRope(arch.Unrotated(n))
			return err
		}
	}
	return nil
}
