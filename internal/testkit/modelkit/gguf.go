package modelkit

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// GGUF is a GGUF file to be written. The zero Version is 3, the zero Alignment
// 32 without a key that says so.
type GGUF struct {
	Version   uint32
	Alignment uint32
	Keys      []GGUFKey
	Tensors   []GGUFTensor
}

// GGUFKey is a metadata key. Value is a uint32, int32, uint64, float32, bool,
// string, []string, []int32, []float32, or GGUFRaw.
type GGUFKey struct {
	Name  string
	Value any
}

// GGUFRaw is the kind and the bytes of a value, whatever they are.
type GGUFRaw struct {
	Kind  uint32
	Bytes []byte
}

// GGUFTensor is a tensor in the file's own terms.
type GGUFTensor struct {
	Name string
	Type uint32   // ggml's number
	Dims []uint64 // fastest first
	Data []byte
}

// Set replaces a key's value, or adds the key.
func (g *GGUF) Set(name string, value any) {
	for i := range g.Keys {
		if g.Keys[i].Name == name {
			g.Keys[i].Value = value
			return
		}
	}
	g.Keys = append(g.Keys, GGUFKey{name, value})
}

// Tensor returns the tensor of that name.
func (g *GGUF) Tensor(name string) *GGUFTensor {
	for i := range g.Tensors {
		if g.Tensors[i].Name == name {
			return &g.Tensors[i]
		}
	}
	return nil
}

// Bytes encodes the file.
func (g *GGUF) Bytes(tb testing.TB) []byte {
	tb.Helper()
	le := binary.LittleEndian
	version, alignment := g.Version, int(g.Alignment)
	if version == 0 {
		version = 3
	}
	keys := g.Keys
	if alignment == 0 {
		alignment = 32
	} else {
		keys = append(keys[:len(keys):len(keys)], GGUFKey{"general.alignment", g.Alignment})
	}
	b := le.AppendUint32([]byte("GGUF"), version)
	b = le.AppendUint64(b, uint64(len(g.Tensors)))
	b = le.AppendUint64(b, uint64(len(keys)))
	for _, k := range keys {
		b = appendGGUFValue(tb, appendGGUFString(b, k.Name), k.Value)
	}
	var body []byte
	for _, t := range g.Tensors {
		b = le.AppendUint32(appendGGUFString(b, t.Name), uint32(len(t.Dims)))
		for _, d := range t.Dims {
			b = le.AppendUint64(b, d)
		}
		b = le.AppendUint32(b, t.Type)
		body = pad(body, alignment)
		b = le.AppendUint64(b, uint64(len(body)))
		body = append(body, t.Data...)
	}
	return append(pad(b, alignment), body...)
}

func pad(b []byte, alignment int) []byte {
	return append(b, make([]byte, (alignment-len(b)%alignment)%alignment)...)
}

func appendGGUFString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendGGUFValue appends a value's kind and bytes.
func appendGGUFValue(tb testing.TB, b []byte, value any) []byte {
	tb.Helper()
	le := binary.LittleEndian
	array := func(kind uint32, n int) []byte {
		return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 9), kind), uint64(n))
	}
	switch v := value.(type) {
	case uint32:
		return le.AppendUint32(le.AppendUint32(b, 4), v)
	case int32:
		return le.AppendUint32(le.AppendUint32(b, 5), uint32(v))
	case float32:
		return le.AppendUint32(le.AppendUint32(b, 6), math.Float32bits(v))
	case bool:
		one := byte(0)
		if v {
			one = 1
		}
		return append(le.AppendUint32(b, 7), one)
	case string:
		return appendGGUFString(le.AppendUint32(b, 8), v)
	case uint64:
		return le.AppendUint64(le.AppendUint32(b, 10), v)
	case []string:
		b = array(8, len(v))
		for _, s := range v {
			b = appendGGUFString(b, s)
		}
		return b
	case []int32:
		b = array(5, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
		return b
	case []float32:
		b = array(6, len(v))
		for _, f := range v {
			b = le.AppendUint32(b, math.Float32bits(f))
		}
		return b
	case GGUFRaw:
		return append(le.AppendUint32(b, v.Kind), v.Bytes...)
	}
	require.Fail(tb, "no such kind of value", fmt.Sprintf("%T", value))
	return nil
}
