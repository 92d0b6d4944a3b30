package randommodel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/model/gguf"
)

// Shape is the size of a Llama.
type Shape struct {
	Name         string
	Hidden       int
	Intermediate int
	Layers       int
	Heads        int
	KVHeads      int
	HeadDim      int
	Vocab        int
	Context      int
	RopeTheta    float32
	Tied         bool // the embedding table is the output matrix, too
}

// shapes are those of public models, of which the first two are small enough to be
// measured in minutes.
var shapes = []Shape{
	{"110m", 768, 2048, 12, 12, 12, 64, 32000, 1024, 1e4, true},        // the largest Llama trained on TinyStories
	{"1.1b", 2048, 5632, 22, 32, 4, 64, 32000, 2048, 1e4, false},       // TinyLlama 1.1B
	{"3b", 3072, 8192, 28, 24, 8, 128, 128256, 131072, 5e5, true},      // Llama 3.2 3B
	{"8b", 4096, 14336, 32, 32, 8, 128, 128256, 131072, 5e5, false},    // Llama 3.1 8B
	{"14b", 5120, 17920, 40, 40, 10, 128, 100352, 16384, 2.5e5, false}, // Phi-4, as a Llama
	{"32b", 5120, 27648, 64, 40, 8, 128, 152064, 131072, 1e6, false},   // Qwen 2.5 32B, as a Llama
	{"70b", 8192, 28672, 80, 64, 8, 128, 128256, 131072, 5e5, false},   // Llama 3.1 70B
}

// Shapes returns the shapes, smallest first.
func Shapes() []Shape { return slices.Clone(shapes) }

// Find returns the shape of a name.
func Find(name string) (Shape, error) {
	var names []string
	for _, s := range shapes {
		if strings.EqualFold(s.Name, name) {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("there is no shape %q: the shapes are %s", name, strings.Join(names, ", "))
}

// types are the element types in which matrices can be written.
var types = map[string]gguf.Type{"bf16": gguf.BF16, "f16": gguf.F16, "q8_0": gguf.Q8_0, "q4_0": gguf.Q4_0}

// FindType returns the element type of a name.
func FindType(name string) (gguf.Type, error) {
	t, ok := types[strings.ToLower(name)]
	if !ok {
		return 0, fmt.Errorf("random weights cannot be of type %q: the types are bf16, f16, q8_0 and q4_0", name)
	}
	return t, nil
}

// tensor is one tensor of a file, with its dimensions in the file's order.
type tensor struct {
	name string
	cols int
	rows int // 0 = a vector
	typ  gguf.Type
}

func (t *tensor) numElements() int64 { return int64(t.cols) * int64(max(t.rows, 1)) }

// Bytes returns how many bytes the tensors of a file of the shape take. With Q4_0
// the table and the output matrix are Q8_0, as --quantization has it.
func (s Shape) Bytes(t gguf.Type) (n int64) {
	for _, x := range s.tensors(t) {
		n += x.typ.Bytes(x.numElements())
	}
	return n
}

// DecodeBytes returns the bytes of weights that one decode step reads: all but the
// embedding table, of which it reads a row, if that is not the output matrix, too.
func (s Shape) DecodeBytes(t gguf.Type) int64 {
	n := s.Bytes(t)
	if !s.Tied {
		n -= edge(t).Bytes(int64(s.Hidden) * int64(s.Vocab))
	}
	return n
}

// NumParameters counts the weights.
func (s Shape) NumParameters() (n int64) {
	for _, x := range s.tensors(gguf.F32) {
		n += x.numElements()
	}
	return n
}

// KVBytesPerToken returns the bytes of the keys and values of a position.
func (s Shape) KVBytesPerToken(bytesPerElement int) int64 {
	return int64(s.Layers) * int64(2*s.KVHeads*s.HeadDim*bytesPerElement)
}

// edge is the type of the matrices at both ends of a model.
func edge(t gguf.Type) gguf.Type {
	if t == gguf.Q4_0 {
		return gguf.Q8_0
	}
	return t
}

func (s Shape) tensors(t gguf.Type) []tensor {
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	all := []tensor{{"token_embd.weight", s.Hidden, s.Vocab, edge(t)}, {"output_norm.weight", s.Hidden, 0, gguf.F32}}
	if !s.Tied {
		all = append(all, tensor{"output.weight", s.Hidden, s.Vocab, edge(t)})
	}
	for i := range s.Layers {
		for _, x := range []tensor{
			{"attn_norm", s.Hidden, 0, gguf.F32}, {"ffn_norm", s.Hidden, 0, gguf.F32},
			{"attn_q", s.Hidden, q, t}, {"attn_k", s.Hidden, kv, t}, {"attn_v", s.Hidden, kv, t}, {"attn_output", q, s.Hidden, t},
			{"ffn_gate", s.Hidden, s.Intermediate, t}, {"ffn_up", s.Hidden, s.Intermediate, t}, {"ffn_down", s.Intermediate, s.Hidden, t},
		} {
			x.name = fmt.Sprintf("blk.%d.%s.weight", i, x.name)
			all = append(all, x)
		}
	}
	return all
}
