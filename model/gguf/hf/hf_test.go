package hf_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/gguf"
	"github.com/troupe-llm/troupe/model/gguf/hf"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/tokenizer"
)

func parse(tb testing.TB, g *modelkit.GGUF) *gguf.File {
	tb.Helper()
	f, err := gguf.Parse("x.gguf", g.Bytes(tb))
	require.NoError(tb, err)
	return f
}

// newTokenizer builds the tokenizer of a folder's files.
func newTokenizer(tb testing.TB, file, config []byte) *tokenizer.Tokenizer {
	tb.Helper()
	c, err := tokenizer.ParseConfig(config)
	require.NoError(tb, err)
	t, err := tokenizer.New(file, c)
	require.NoError(tb, err)
	return t
}

func TestTokenizerIsTheSame(t *testing.T) {
	folder := understudy.Embedded()
	file, err := folder.File("tokenizer.json")
	require.NoError(t, err)
	config, err := folder.File("tokenizer_config.json")
	require.NoError(t, err)
	want := newTokenizer(t, file, config)

	f := parse(t, modelkit.ConvertLlama(t, folder, "BF16"))
	file, err = hf.Tokenizer(f)
	require.NoError(t, err)
	config, err = hf.TokenizerConfig(f)
	require.NoError(t, err)
	got := newTokenizer(t, file, config)

	require.Equal(t, want.VocabSize(), got.VocabSize())
	require.Equal(t, want.Config().ChatTemplate, got.Config().ChatTemplate)
	require.Equal(t, "<|im_end|>", got.Config().EOSToken)
	for id := range int32(want.VocabSize()) {
		require.Equal(t, want.TokenString(id), got.TokenString(id))
	}
	for _, text := range []string{
		"", "Hello, world!", "<|im_start|>user\nWhat is 12+345?<|im_end|>\n", "naïve – 東京 🙂  \n\n\tx", "<tool_call>{}</tool_call>", "it's I'LL we've",
	} {
		require.Equal(t, want.Encode(text, tokenizer.EncodeOptions{}), got.Encode(text, tokenizer.EncodeOptions{}), "%q", text)
	}
}

func TestTokenizerRefuses(t *testing.T) {
	cases := []struct {
		name   string
		change func(g *modelkit.GGUF)
		want   string
	}{
		{"WordPiece", func(g *modelkit.GGUF) { g.Set("tokenizer.ggml.model", "bert") }, `"tokenizer.ggml.model" is "bert", which is not supported; supported: gpt2`},
		{"unknown split", func(g *modelkit.GGUF) { g.Set("tokenizer.ggml.pre", "mine") }, `"tokenizer.ggml.pre" is "mine"`},
		{"tokens of numbers", func(g *modelkit.GGUF) { g.Set("tokenizer.ggml.tokens", []int32{1}) }, `"tokenizer.ggml.tokens" is no array of string`},
		{"types for others", func(g *modelkit.GGUF) { g.Set("tokenizer.ggml.token_type", []int32{1}) }, "has 1 elements, but there are 2048 tokens"},
		{"merges of numbers", func(g *modelkit.GGUF) { g.Set("tokenizer.ggml.merges", []int32{1}) }, `"tokenizer.ggml.merges" is no array`},
	}
	for _, c := range cases {
		g := modelkit.ConvertLlama(t, understudy.Embedded(), "BF16")
		c.change(g)
		_, err := hf.Tokenizer(parse(t, g))
		require.ErrorContains(t, err, c.want, c.name)
	}
	g := modelkit.ConvertLlama(t, understudy.Embedded(), "BF16")
	g.Set("tokenizer.ggml.eos_token_id", uint32(2048))
	_, err := hf.TokenizerConfig(parse(t, g))
	require.ErrorContains(t, err, `"tokenizer.ggml.eos_token_id" is 2048, but there are only 2048 tokens`)
}

// Factors of a file are those of Llama 3's scaling, and give it back.
func TestRopeFactors(t *testing.T) {
	scaling := &arch.RopeScaling{Kind: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 8192}
	g := modelkit.ConvertLlama(t, understudy.Embedded(), "BF16")
	g.Set("llama.rope.freq_base", float32(500000))
	factors := make([]float32, 16)
	for i := range factors {
		turns := 8192 * math.Pow(500000, -float64(i)/16) / (2 * math.Pi)
		switch {
		case turns < 1:
			factors[i] = 8
		case turns > 4:
			factors[i] = 1
		default:
			smooth := (turns - 1) / 3
			factors[i] = float32(1 / ((1-smooth)/8 + smooth))
		}
	}
	data := make([]byte, 0, 64)
	for _, v := range factors {
		bits := math.Float32bits(v)
		data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	g.Tensors = append(g.Tensors, modelkit.GGUFTensor{Name: "rope_freqs.weight", Dims: []uint64{16}, Data: data})
	b, err := hf.Config(parse(t, g))
	require.NoError(t, err)
	c, err := model.ParseConfig(b)
	require.NoError(t, err)
	require.Equal(t, scaling, c.Ropes[0].Scaling)

	tensors, err := hf.Tensors(parse(t, g))
	require.NoError(t, err)
	for _, tensor := range tensors {
		require.NotEqual(t, "rope_freqs.weight", tensor.Name, "it is used up")
	}
	data[22] ^= 0xff
	_, err = hf.Config(parse(t, g))
	require.ErrorContains(t, err, `tensor "rope_freqs.weight" does not hold the factors of Llama 3's rope scaling`)
}

func TestConfigOfScaledRope(t *testing.T) {
	g := modelkit.ConvertLlama(t, understudy.Embedded(), "BF16")
	g.Set("llama.rope.scaling.type", "linear")
	g.Set("llama.rope.scaling.factor", float32(4))
	b, err := hf.Config(parse(t, g))
	require.NoError(t, err)
	var c struct {
		Scaling map[string]any `json:"rope_scaling"`
	}
	require.NoError(t, json.Unmarshal(b, &c))
	require.Equal(t, map[string]any{"rope_type": "linear", "factor": 4.0, "original_max_position_embeddings": 1024.0}, c.Scaling)
}

// FuzzFiles converts whatever metadata parses: the outcome is a file or an error.
func FuzzFiles(f *testing.F) {
	small, err := model.OpenDir(modelkit.Small(1).Write(f, "F32", 1))
	require.NoError(f, err)
	g := modelkit.ConvertLlama(f, small, "F32")
	g.Set("tokenizer.ggml.model", "gpt2")
	g.Set("tokenizer.ggml.pre", "gpt-2")
	g.Set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "<s>"})
	g.Set("tokenizer.ggml.token_type", []int32{1, 1, 1, 3})
	g.Set("tokenizer.ggml.merges", []string{"a b"})
	g.Set("tokenizer.ggml.bos_token_id", uint32(3))
	g.Tensors = g.Tensors[:2]
	f.Add(g.Bytes(f))
	phi, experts := modelkit.NewTiny(f, "Phi3ForCausalLM", 1).GGUF(f), modelkit.NewTinyMoE(1).GGUF(f)
	phi.Tensors = slices.DeleteFunc(phi.Tensors, func(t modelkit.GGUFTensor) bool { return !strings.HasPrefix(t.Name, "rope_factors") })
	experts.Tensors = []modelkit.GGUFTensor{{Name: "blk.0.ffn_up_exps.weight", Dims: []uint64{1, 2, 3}, Data: make([]byte, 24)}}
	f.Add(phi.Bytes(f))
	f.Add(experts.Bytes(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse("x.gguf", data)
		if err != nil {
			return
		}
		for _, convert := range []func(*gguf.File) ([]byte, error){hf.Config, hf.Tokenizer, hf.TokenizerConfig} {
			if b, err := convert(file); err == nil {
				require.True(t, json.Valid(b))
			}
		}
		tensors, err := hf.Tensors(file)
		for _, tensor := range tensors {
			require.True(t, err != nil || tensor.PairedHeads == 0 || tensor.Shape[0]%(2*tensor.PairedHeads) == 0)
		}
	})
}
