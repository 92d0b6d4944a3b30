package modelkit

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	kernels "github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/kernels/cpu/half"
	"github.com/troupe-llm/troupe/model/safetensors"
)

// Files gives the files of a model folder.
type Files interface {
	File(name string) ([]byte, error)
}

// ggmlTypes has ggml's numbers.
var ggmlTypes = map[string]uint32{"F32": 0, "F16": 1, "BF16": 30, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}

// ggufNames are the names of a Llama's tensors, of a layer and outside.
var ggufNames = strings.NewReplacer(
	"model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output", "model.layers.", "blk.",
	"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
	"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
)

// llamaConfig is what of config.json goes into the metadata.
type llamaConfig struct {
	Hidden       uint32  `json:"hidden_size"`
	Intermediate uint32  `json:"intermediate_size"`
	Layers       uint32  `json:"num_hidden_layers"`
	Heads        uint32  `json:"num_attention_heads"`
	KVHeads      uint32  `json:"num_key_value_heads"`
	HeadDim      uint32  `json:"head_dim"`
	Context      uint32  `json:"max_position_embeddings"`
	Eps          float32 `json:"rms_norm_eps"`
	Theta        float32 `json:"rope_theta"`
	EOS          uint32  `json:"eos_token_id"`
}

// ConvertLlama writes a folder's Llama as llama.cpp's converter does: matrices
// in elements of the given type (and in Q8_0 those whose rows its blocks do not
// divide), q and k with the rows of a rotated pair side by side. The tokenizer
// comes along if the folder has one.
func ConvertLlama(tb testing.TB, f Files, dtype string) *GGUF {
	tb.Helper()
	var c llamaConfig
	readJSON(tb, f, "config.json", &c)
	g := &GGUF{}
	for _, k := range []GGUFKey{
		{"general.architecture", "llama"}, {"general.name", "converted"},
		{"llama.embedding_length", c.Hidden}, {"llama.feed_forward_length", c.Intermediate},
		{"llama.block_count", c.Layers}, {"llama.context_length", c.Context},
		{"llama.attention.head_count", c.Heads}, {"llama.attention.head_count_kv", c.KVHeads},
		{"llama.attention.key_length", c.HeadDim}, {"llama.attention.value_length", c.HeadDim},
		{"llama.rope.dimension_count", c.HeadDim}, {"llama.rope.freq_base", c.Theta},
		{"llama.attention.layer_norm_rms_epsilon", c.Eps},
	} {
		g.Set(k.Name, k.Value)
	}
	g.addTokenizer(tb, f, c.EOS)
	b, err := f.File("model.safetensors")
	require.NoError(tb, err)
	file, err := safetensors.Parse("model.safetensors", b)
	require.NoError(tb, err)
	for _, t := range file.Tensors() {
		g.addTensor(tb, &c, t, dtype)
	}
	return g
}

func (g *GGUF) addTensor(tb testing.TB, c *llamaConfig, t safetensors.Tensor, dtype string) {
	values := decode(tb, t)
	own := GGUFTensor{Name: ggufNames.Replace(t.Name)}
	for i := len(t.Shape) - 1; i >= 0; i-- {
		own.Dims = append(own.Dims, uint64(t.Shape[i]))
	}
	switch {
	case strings.HasSuffix(t.Name, "q_proj.weight"):
		values = pairRows(values, t.Shape, int(c.Heads))
	case strings.HasSuffix(t.Name, "k_proj.weight"):
		values = pairRows(values, t.Shape, int(c.KVHeads))
	}
	q, blocks := quantTypes[dtype]
	switch {
	case len(t.Shape) == 1:
		dtype = "F32"
	case blocks && t.Shape[1]%q.Elements() != 0:
		dtype = "Q8_0"
	}
	own.Type, own.Data = ggmlTypes[dtype], encode(tb, values, dtype)
	g.Tensors = append(g.Tensors, own)
}

// pairRows puts rows i and n/2+i of every head of n rows side by side.
func pairRows(values []float32, shape []int, heads int) []float32 {
	cols, perHead := shape[1], shape[0]/heads
	paired := make([]float32, 0, len(values))
	for row := range shape[0] {
		head, at := row/perHead, row%perHead
		from := head*perHead + at%2*(perHead/2) + at/2
		paired = append(paired, values[from*cols:][:cols]...)
	}
	return paired
}

// decode widens a tensor.
func decode(tb testing.TB, t safetensors.Tensor) []float32 {
	values := make([]float32, t.NumElements())
	require.Contains(tb, []string{"F32", "F16", "BF16"}, t.DType)
	for i := range values {
		switch t.DType {
		case "F32":
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		case "F16":
			values[i] = half.ToFloat32(binary.LittleEndian.Uint16(t.Data[2*i:]))
		default:
			values[i] = kernels.BF16ToF32(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	}
	return values
}

// encode rounds values to elements of a type.
func encode(tb testing.TB, values []float32, dtype string) (b []byte) {
	require.Contains(tb, ggmlTypes, dtype)
	if q, ok := quantTypes[dtype]; ok {
		return appendBlocks(nil, q, values)
	}
	for _, v := range values {
		switch dtype {
		case "F32":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		case "F16":
			b = binary.LittleEndian.AppendUint16(b, half.FromFloat32(v))
		default:
			b = binary.LittleEndian.AppendUint16(b, kernels.F32ToBF16(v))
		}
	}
	return b
}

// addTokenizer adds the keys of a byte-level BPE, whose split pattern is taken to
// be that of Qwen 2, and of the chat template.
func (g *GGUF) addTokenizer(tb testing.TB, f Files, eos uint32) {
	if _, err := f.File("tokenizer.json"); err != nil {
		return
	}
	var t struct {
		Model struct {
			Vocab  map[string]int
			Merges []string
		}
		AddedTokens []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
	}
	readJSON(tb, f, "tokenizer.json", &t)
	forms, kinds := make([]string, len(t.Model.Vocab)+len(t.AddedTokens)), []int32{}
	for form, id := range t.Model.Vocab {
		forms[id] = form
	}
	for range forms {
		kinds = append(kinds, 1)
	}
	for _, a := range t.AddedTokens {
		forms[a.ID], kinds[a.ID] = a.Content, 4
		if a.Special {
			kinds[a.ID] = 3
		}
	}
	g.Set("tokenizer.ggml.model", "gpt2")
	g.Set("tokenizer.ggml.pre", "qwen2")
	g.Set("tokenizer.ggml.tokens", forms)
	g.Set("tokenizer.ggml.token_type", kinds)
	g.Set("tokenizer.ggml.merges", t.Model.Merges)
	g.Set("tokenizer.ggml.eos_token_id", eos)
	g.Set("tokenizer.ggml.add_bos_token", false)
	var config struct {
		Template string `json:"chat_template"`
	}
	readJSON(tb, f, "tokenizer_config.json", &config)
	g.Set("tokenizer.chat_template", config.Template)
}

func readJSON(tb testing.TB, f Files, name string, v any) {
	tb.Helper()
	b, err := f.File(name)
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, v), name)
}
