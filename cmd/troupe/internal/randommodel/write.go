package randommodel

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
	"github.com/troupe-llm/troupe/model/gguf"
)

// alignment of a tensor's bytes in the file, which is GGUF's default.
const alignment = 32

// Model is what a file is to hold; the same one gives the same bytes.
type Model struct {
	Shape Shape
	Type  gguf.Type // of the matrices
	Seed  uint64    // of the weights
}

// FindModel returns the model of a shape's and a type's name.
func FindModel(shape, typ string, seed uint64) (m Model, err error) {
	m.Seed = seed
	if m.Shape, err = Find(shape); err != nil {
		return m, err
	}
	m.Type, err = FindType(typ)
	return m, err
}

// WriteFile writes a file, which appears when it is whole. It stops when ctx ends.
func (m *Model) WriteFile(ctx context.Context, path string) error {
	part := path + ".part"
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	err = errors.Join(m.Write(ctx, f), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// Write writes what WriteFile does.
func (m *Model) Write(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(&writer{ctx, w}, 1<<20)
	head := newHeader(m.Shape, m.Type)
	if _, err := out.Write(head); err != nil {
		return err
	}
	values := &values{random: rand.NewChaCha8(seed32(m.Seed))}
	for _, x := range m.Shape.tensors(m.Type) {
		if err := values.write(out, &x); err != nil {
			return err
		}
	}
	return out.Flush()
}

// writer fails when its context has ended.
type writer struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(b)
}

func seed32(seed uint64) (b [32]byte) {
	binary.LittleEndian.PutUint64(b[:], seed)
	return b
}

// header gathers the bytes before the tensors.
type header struct {
	keys    []byte
	numKeys uint64
}

// fileTypes are the format's numbers for files whose matrices are mostly of a type.
var fileTypes = map[gguf.Type]int{gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32}

// newHeader returns the file up to its first tensor: magic, metadata, the list of
// tensors with their places, and what aligns them.
// Source: ggml, docs/gguf.md, version 3.
func newHeader(s Shape, t gguf.Type) []byte {
	h := &header{}
	h.text("general.architecture", "llama")
	h.text("general.name", "random-"+s.Name)
	h.number("general.file_type", fileTypes[t])
	h.number("general.quantization_version", 2)
	h.number("llama.vocab_size", s.Vocab)
	h.number("llama.context_length", s.Context)
	h.number("llama.embedding_length", s.Hidden)
	h.number("llama.feed_forward_length", s.Intermediate)
	h.number("llama.block_count", s.Layers)
	h.number("llama.attention.head_count", s.Heads)
	h.number("llama.attention.head_count_kv", s.KVHeads)
	h.number("llama.attention.key_length", s.HeadDim)
	h.number("llama.attention.value_length", s.HeadDim)
	h.number("llama.rope.dimension_count", s.HeadDim)
	h.float("llama.rope.freq_base", s.RopeTheta)
	h.float("llama.attention.layer_norm_rms_epsilon", 1e-5)
	h.vocabulary(s.Vocab)

	le := binary.LittleEndian
	tensors := s.tensors(t)
	b := le.AppendUint32([]byte("GGUF"), 3)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = append(le.AppendUint64(b, h.numKeys), h.keys...)
	at := int64(0)
	for _, x := range tensors {
		b = appendString(b, x.name)
		dims := []int{x.cols}
		if x.rows > 0 {
			dims = append(dims, x.rows)
		}
		b = le.AppendUint32(b, uint32(len(dims)))
		for _, d := range dims {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint64(le.AppendUint32(b, uint32(x.typ)), uint64(at))
		at += aligned(x.typ.Bytes(x.numElements()))
	}
	return append(b, make([]byte, aligned(int64(len(b)))-int64(len(b)))...)
}

func aligned(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func (h *header) key(name string, kind gguf.Kind) {
	h.keys = binary.LittleEndian.AppendUint32(appendString(h.keys, name), uint32(kind))
	h.numKeys++
}

func (h *header) text(name, value string) {
	h.key(name, gguf.String)
	h.keys = appendString(h.keys, value)
}

func (h *header) number(name string, value int) {
	h.key(name, gguf.Uint32)
	h.keys = binary.LittleEndian.AppendUint32(h.keys, uint32(value))
}

func (h *header) float(name string, value float32) {
	h.key(name, gguf.Float32)
	h.keys = binary.LittleEndian.AppendUint32(h.keys, math.Float32bits(value))
}

func (h *header) array(name string, kind gguf.Kind, n int) {
	h.key(name, gguf.Array)
	h.keys = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(h.keys, uint32(kind)), uint64(n))
}

// Kinds of tokens of a SentencePiece vocabulary, as GGUF numbers them.
const (
	tokenNormal  = 1
	tokenUnknown = 2
	tokenControl = 3
	tokenByte    = 6
)

// vocabulary adds a SentencePiece vocabulary of n tokens: three of control, a token
// per byte, and made-up words.
func (h *header) vocabulary(n int) {
	h.text("tokenizer.ggml.model", "llama")
	h.array("tokenizer.ggml.tokens", gguf.String, n)
	for id := range n {
		h.keys = appendString(h.keys, tokenText(id))
	}
	h.array("tokenizer.ggml.scores", gguf.Float32, n)
	for id := range n {
		h.keys = binary.LittleEndian.AppendUint32(h.keys, math.Float32bits(-float32(id)))
	}
	h.array("tokenizer.ggml.token_type", gguf.Int32, n)
	for id := range n {
		h.keys = binary.LittleEndian.AppendUint32(h.keys, uint32(tokenKind(id)))
	}
	h.number("tokenizer.ggml.bos_token_id", 1)
	h.number("tokenizer.ggml.eos_token_id", 2)
	h.number("tokenizer.ggml.unknown_token_id", 0)
	h.text("tokenizer.chat_template", "{% for message in messages %}{{ message['content'] }}{% endfor %}")
}

// numControl is how many tokens come before those of the bytes.
const numControl = 3

func tokenText(id int) string {
	switch {
	case id < numControl:
		return []string{"<unk>", "<s>", "</s>"}[id]
	case id < numControl+256:
		return fmt.Sprintf("<0x%02X>", id-numControl)
	}
	return "\u2581" + letters(id-numControl-256)
}

// letters writes a number in bijective base 26: a, b, ... z, aa, ab and so on.
func letters(n int) string {
	s := ""
	for n++; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

func tokenKind(id int) int {
	switch {
	case id == 0:
		return tokenUnknown
	case id < numControl:
		return tokenControl
	case id < numControl+256:
		return tokenByte
	}
	return tokenNormal
}

// values draws weights.
type values struct {
	random *rand.ChaCha8
	chunk  [1 << 18]byte
}

// write writes a tensor's elements and what aligns the next: norms are ones, the rest
// has a standard deviation of about 1/sqrt(columns), so that activations neither
// grow nor fade.
func (v *values) write(w io.Writer, t *tensor) error {
	size := t.typ.Bytes(t.numElements())
	padding := aligned(size) - size
	if t.rows == 0 {
		one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
		for range t.cols {
			if _, err := w.Write(one); err != nil {
				return err
			}
		}
		size = 0
	}
	deviation := 1 / math.Sqrt(float64(t.cols))
	unit := int(t.typ.Bytes(quantBlock))
	for size > 0 {
		n := min(size, int64(len(v.chunk)/unit*unit))
		b := v.chunk[:n]
		if _, err := v.random.Read(b); err != nil {
			return err
		}
		shape(b, t.typ, deviation)
		if _, err := w.Write(b); err != nil {
			return err
		}
		size -= n
	}
	_, err := w.Write(make([]byte, padding))
	return err
}

// quantBlock is how many elements a block of Q8_0 or Q4_0 has; a row of every shape
// has whole ones.
const quantBlock = 32

// shape turns random bytes into elements of a type with a standard deviation.
func shape(b []byte, t gguf.Type, deviation float64) {
	le := binary.LittleEndian
	switch t {
	case gguf.BF16, gguf.F16: // even over an interval, whose deviation is width/sqrt(12)
		width := deviation * math.Sqrt(12)
		for i := 0; i < len(b); i += 2 {
			x := float32((float64(le.Uint16(b[i:]))/65536 - 0.5) * width)
			if t == gguf.F16 {
				le.PutUint16(b[i:], half.FromFloat32(x))
			} else {
				le.PutUint16(b[i:], uint16(math.Float32bits(x)>>16))
			}
		}
	case gguf.Q8_0: // of even bytes the deviation is 256/sqrt(12)
		scaleBlocks(b, 34, half.FromFloat32(float32(deviation*math.Sqrt(12)/256)))
	case gguf.Q4_0:
		scaleBlocks(b, 18, half.FromFloat32(float32(deviation*math.Sqrt(12)/16)))
	}
}

// scaleBlocks sets the scales of blocks, which come before their elements.
func scaleBlocks(b []byte, size int, scale uint16) {
	for i := 0; i < len(b); i += size {
		binary.LittleEndian.PutUint16(b[i:], scale)
	}
}
