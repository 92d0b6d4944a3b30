package model

import (
	"fmt"

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
type layer struct {
	inputNorm compute.Vector // [hidden]
	qkv       compute.Matrix // [(heads + 2 kv_heads) * head_dim, hidden]
	o         compute.Matrix // [hidden, heads * head_dim]
	postNorm  compute.Vector // [hidden]
	gateUp    compute.Matrix // [2 * intermediate, hidden]
	down      compute.Matrix // [hidden, intermediate]
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

// item is one weight to be made of tensors: exactly one of matrix and vector
// is where it goes.
type item struct {
	parts  []tensorSpec
	matrix *compute.Matrix
	vector *compute.Vector
}

// items lists what has to be loaded, in the order of use.
func (w *weights) items(c *Config) []item {
	embed := tensorSpec{"model.embed_tokens.weight", c.VocabSize, c.HiddenSize}
	list := []item{{parts: []tensorSpec{embed}, matrix: &w.embed}}
	w.layers = make([]layer, c.NumLayers)
	for i := range w.layers {
		list = append(list, w.layers[i].items(c, i)...)
	}
	list = append(list, item{parts: []tensorSpec{{"model.norm.weight", c.HiddenSize, 0}}, vector: &w.norm})
	if !c.TieWordEmbeddings {
		head := tensorSpec{"lm_head.weight", c.VocabSize, c.HiddenSize}
		list = append(list, item{parts: []tensorSpec{head}, matrix: &w.lmHead})
	}
	return list
}

func (l *layer) items(c *Config, index int) []item {
	spec := func(name string, rows, cols int) tensorSpec {
		return tensorSpec{fmt.Sprintf("model.layers.%d.%s.weight", index, name), rows, cols}
	}
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	return []item{
		{parts: []tensorSpec{spec("input_layernorm", c.HiddenSize, 0)}, vector: &l.inputNorm},
		{parts: []tensorSpec{
			spec("self_attn.q_proj", q, c.HiddenSize),
			spec("self_attn.k_proj", kv, c.HiddenSize),
			spec("self_attn.v_proj", kv, c.HiddenSize),
		}, matrix: &l.qkv},
		{parts: []tensorSpec{spec("self_attn.o_proj", c.HiddenSize, q)}, matrix: &l.o},
		{parts: []tensorSpec{spec("post_attention_layernorm", c.HiddenSize, 0)}, vector: &l.postNorm},
		{parts: []tensorSpec{
			spec("mlp.gate_proj", c.IntermediateSize, c.HiddenSize),
			spec("mlp.up_proj", c.IntermediateSize, c.HiddenSize),
		}, matrix: &l.gateUp},
		{parts: []tensorSpec{spec("mlp.down_proj", c.HiddenSize, c.IntermediateSize)}, matrix: &l.down},
	}
}
