package hf_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model/gguf/hf"
)

func TestLongropeFactorsAreChecked(t *testing.T) {
	for want, change := range map[string]func(g *modelkit.GGUF){
		`tensor "rope_factors_short.weight" is missing, but there is "rope_factors_long.weight"`: func(g *modelkit.GGUF) {
			g.Tensor("rope_factors_short.weight").Name = "x"
		},
		`tensor "rope_factors_long.weight" has type F16 and shape [6]; expected a vector of F32`: func(g *modelkit.GGUF) {
			f := g.Tensor("rope_factors_long.weight")
			f.Type, f.Dims = 1, []uint64{6}
		},
		`tensor "rope_factors_short.weight" holds NaN at 1`: func(g *modelkit.GGUF) {
			copy(g.Tensor("rope_factors_short.weight").Data[4:], []byte{0xff, 0xff, 0xff, 0xff})
		},
		`"phi3.rope.scaling.original_context_length" is missing`: func(g *modelkit.GGUF) {
			for i := range g.Keys {
				if g.Keys[i].Name == "phi3.rope.scaling.original_context_length" {
					g.Keys[i].Name = "x"
				}
			}
		},
	} {
		g := modelkit.NewTiny(t, "Phi3ForCausalLM", 1).GGUF(t)
		change(g)
		_, err := hf.Config(parse(t, g))
		require.ErrorContains(t, err, want)
	}
}

// A name is a format while experts are cut apart: the file's own part of it is none.
func TestNamesOfTensorsAreNoFormats(t *testing.T) {
	g := modelkit.NewTinyMoE(1).GGUF(t)
	g.Tensor("blk.1.ffn_up_exps.weight").Name = "blk.1.ffn_up_exps.%900000d%d"
	g.Tensor("blk.0.attn_norm.weight").Name = "blk.0.attn_norm.%d"
	g.Tensor("blk.2.attn_norm.weight").Name = "%d.weight"
	tensors, err := hf.Tensors(parse(t, g))
	require.NoError(t, err)
	for _, tensor := range tensors {
		require.NotContains(t, tensor.Name, "%")
		require.Less(t, len(tensor.Name), 100)
	}
}

// A tensor of all experts becomes one for each; one of another shape is left to
// whoever knows what it should be.
func TestExpertsAreCutApart(t *testing.T) {
	g := modelkit.NewTinyMoE(1).GGUF(t)
	odd := g.Tensor("blk.1.ffn_up_exps.weight")
	odd.Dims = []uint64{odd.Dims[0], odd.Dims[1] * odd.Dims[2]}
	tensors, err := hf.Tensors(parse(t, g))
	require.NoError(t, err)
	shapes := map[string][]int{}
	for _, tensor := range tensors {
		shapes[tensor.Name] = tensor.Shape
	}
	require.Equal(t, []int{14, 40}, shapes["model.layers.0.mlp.experts.4.up_proj.weight"])
	require.Equal(t, []int{40, 14}, shapes["model.layers.3.mlp.experts.0.down_proj.weight"])
	require.Equal(t, []int{70, 40}, shapes["model.layers.1.mlp.experts.0.up_proj.weight"])
	require.NotContains(t, shapes, "model.layers.1.mlp.experts.1.up_proj.weight")
}
