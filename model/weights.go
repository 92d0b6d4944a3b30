package model

import (
	"github.com/troupe-llm/troupe/compute"
)

// weights are a decoder's parameters in the backend's memory.
type weights struct {
	embed  compute.Matrix // [vocab, hidden]
	layers []layer
	norm   compute.Vector // [hidden]
	lmHead compute.Matrix // [vocab, hidden]; embed itself if tied
}

// layer is one decoder layer. Projections of the same input are fused by rows.
// What the architecture does not have is nil.
type layer struct {
	attentionNorm compute.Vector // [hidden]
	qkv           compute.Matrix // [(heads + 2 kv_heads) * head_dim, hidden]
	qkvBias       compute.Vector // [(heads + 2 kv_heads) * head_dim]
	qNorm, kNorm  compute.Vector // [head_dim]
	o             compute.Matrix // [hidden, heads * head_dim]
	postAttention compute.Vector // [hidden]
	mlpNorm       compute.Vector // [hidden]
	gateUp        compute.Matrix // [2 * intermediate, hidden]; nil if sparse
	down          compute.Matrix // [hidden, intermediate]; nil if sparse
	experts       *compute.Experts
	postMLP       compute.Vector // [hidden]
}

// tensorSpec is a tensor that the checkpoint must hold. Vectors have cols 0.
type tensorSpec struct {
	name       string
	rows, cols int
}

// shape returns the tensor's shape as the file should give it.
func (s tensorSpec) shape() []int {
	if s.cols == 0 {
		return []int{s.rows}
	}
	return []int{s.rows, s.cols}
}

// item is one weight to be made of tensors, stacked by rows: exactly one of matrix
// and vector is where it goes.
type item struct {
	parts  []tensorSpec
	matrix *compute.Matrix
	vector *compute.Vector
	offset float32 // added to the elements of a vector
	role   role    // of a matrix
}

// role is what quantisation at load has to know of a matrix.
type role uint8

const (
	ofLayer    role = iota // one of many
	vocabulary             // has a row for every token
	router                 // chooses experts: small, and every error is a wrong choice
)

// itemList gathers items of a config.
type itemList struct {
	*Config
	items []item
}

// matrix adds a matrix of parts that have cols columns, and returns it.
func (l *itemList) matrix(to *compute.Matrix, cols int, parts ...tensorSpec) *item {
	for i := range parts {
		parts[i].cols = cols
		parts[i].name += ".weight"
	}
	l.items = append(l.items, item{parts: parts, matrix: to})
	return &l.items[len(l.items)-1]
}

// norm adds the weight of a norm over n elements.
func (l *itemList) norm(to *compute.Vector, name string, n int) {
	l.items = append(l.items, item{parts: []tensorSpec{{name: name + ".weight", rows: n}}, vector: to, offset: float32(l.NormOffset)})
}

// bias adds a bias of parts, one behind the other.
func (l *itemList) bias(to *compute.Vector, parts ...tensorSpec) {
	for i := range parts {
		parts[i].name += ".bias"
	}
	l.items = append(l.items, item{parts: parts, vector: to})
}

// items lists what has to be loaded, in the order of use.
func (w *weights) items(c *Config) []item {
	l := &itemList{Config: c}
	l.matrix(&w.embed, c.HiddenSize, tensorSpec{name: c.Tensors.Embedding, rows: c.VocabSize}).role = vocabulary
	w.layers = make([]layer, c.NumLayers)
	for i := range w.layers {
		w.layers[i].attentionItems(l, i)
		w.layers[i].mlpItems(l, i)
	}
	l.norm(&w.norm, c.Tensors.FinalNorm, c.HiddenSize)
	if !c.TieWordEmbeddings {
		l.matrix(&w.lmHead, c.HiddenSize, tensorSpec{name: c.Tensors.Head, rows: c.VocabSize}).role = vocabulary
	}
	return l.items
}

func (w *layer) attentionItems(l *itemList, i int) {
	names := &l.Tensors
	q, kv := l.NumHeads*l.HeadDim, l.NumKVHeads*l.HeadDim
	// The parts of the fused projection, once for its weight and once for its bias.
	qkv := func() []tensorSpec {
		if names.QKV != "" {
			return []tensorSpec{{name: names.OfLayer(i, names.QKV), rows: q + 2*kv}}
		}
		return []tensorSpec{
			{name: names.OfLayer(i, names.Q), rows: q}, {name: names.OfLayer(i, names.K), rows: kv}, {name: names.OfLayer(i, names.V), rows: kv},
		}
	}
	l.norm(&w.attentionNorm, names.OfLayer(i, names.AttentionNorm), l.HiddenSize)
	l.matrix(&w.qkv, l.HiddenSize, qkv()...)
	if l.QKVBias {
		l.bias(&w.qkvBias, qkv()...)
	}
	if names.QNorm != "" {
		l.norm(&w.qNorm, names.OfLayer(i, names.QNorm), l.HeadDim)
		l.norm(&w.kNorm, names.OfLayer(i, names.KNorm), l.HeadDim)
	}
	l.matrix(&w.o, q, tensorSpec{name: names.OfLayer(i, names.O), rows: l.HiddenSize})
	if names.PostAttention != "" {
		l.norm(&w.postAttention, names.OfLayer(i, names.PostAttention), l.HiddenSize)
	}
}

func (w *layer) mlpItems(l *itemList, i int) {
	names, n := &l.Tensors, l.IntermediateSize
	l.norm(&w.mlpNorm, names.OfLayer(i, names.MLPNorm), l.HiddenSize)
	if l.Layers[i].Sparse {
		w.expertItems(l, i)
	} else {
		gateUp := []tensorSpec{{name: names.OfLayer(i, names.Gate), rows: n}, {name: names.OfLayer(i, names.Up), rows: n}}
		if names.GateUp != "" {
			gateUp = []tensorSpec{{name: names.OfLayer(i, names.GateUp), rows: 2 * n}}
		}
		l.matrix(&w.gateUp, l.HiddenSize, gateUp...)
		l.matrix(&w.down, n, tensorSpec{name: names.OfLayer(i, names.Down), rows: l.HiddenSize})
	}
	if names.PostMLP != "" {
		l.norm(&w.postMLP, names.OfLayer(i, names.PostMLP), l.HiddenSize)
	}
}

func (w *layer) expertItems(l *itemList, i int) {
	names, e := &l.Tensors, &l.Experts
	w.experts = &compute.Experts{
		GateUp: make([]compute.Matrix, e.Num), Down: make([]compute.Matrix, e.Num), PerToken: e.PerToken, Normalize: e.Normalize,
	}
	l.matrix(&w.experts.Router, l.HiddenSize, tensorSpec{name: names.OfLayer(i, names.Router), rows: e.Num}).role = router
	for x := range e.Num {
		l.matrix(&w.experts.GateUp[x], l.HiddenSize,
			tensorSpec{name: names.OfExpert(i, x, names.ExpertGate), rows: e.IntermediateSize},
			tensorSpec{name: names.OfExpert(i, x, names.ExpertUp), rows: e.IntermediateSize})
		l.matrix(&w.experts.Down[x], e.IntermediateSize, tensorSpec{name: names.OfExpert(i, x, names.ExpertDown), rows: l.HiddenSize})
	}
}
