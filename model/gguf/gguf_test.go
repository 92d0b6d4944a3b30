package gguf_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model/gguf"
)

// sample has a key of every kind and two tensors.
func sample() *modelkit.GGUF {
	le := binary.LittleEndian
	nested := le.AppendUint64(le.AppendUint32(nil, 9), 2) // two arrays
	nested = append(le.AppendUint64(le.AppendUint32(nested, 0), 3), 7, 8, 9)
	nested = append(le.AppendUint64(le.AppendUint32(nested, 0), 1), 5)
	return &modelkit.GGUF{
		Keys: []modelkit.GGUFKey{
			{Name: "u8", Value: modelkit.GGUFRaw{Kind: 0, Bytes: []byte{200}}},
			{Name: "i8", Value: modelkit.GGUFRaw{Kind: 1, Bytes: []byte{200}}},
			{Name: "u16", Value: modelkit.GGUFRaw{Kind: 2, Bytes: []byte{0, 200}}},
			{Name: "i16", Value: modelkit.GGUFRaw{Kind: 3, Bytes: []byte{0, 200}}},
			{Name: "u32", Value: uint32(4e9)}, {Name: "i32", Value: int32(-7)},
			{Name: "f32", Value: float32(0.5)}, {Name: "bool", Value: true}, {Name: "string", Value: "Ġhi"},
			{Name: "u64", Value: uint64(1 << 40)}, {Name: "huge", Value: uint64(1 << 63)},
			{Name: "i64", Value: modelkit.GGUFRaw{Kind: 11, Bytes: bytes.Repeat([]byte{255}, 8)}},
			{Name: "f64", Value: modelkit.GGUFRaw{Kind: 12, Bytes: []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f}}},
			{Name: "strings", Value: []string{"a", "", "ccc"}}, {Name: "ints", Value: []int32{3, -1}},
			{Name: "nested", Value: modelkit.GGUFRaw{Kind: 9, Bytes: nested}},
		},
		Tensors: []modelkit.GGUFTensor{
			{Name: "m", Type: 1, Dims: []uint64{3, 2}, Data: []byte("abcdefghijkl")},
			{Name: "q", Type: 8, Dims: []uint64{64, 2}, Data: bytes.Repeat([]byte("Q"), 4*34)},
		},
	}
}

func TestParse(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		g := sample()
		g.Version = version
		file := g.Bytes(t)
		f, err := gguf.Parse("x.gguf", file)
		require.NoError(t, err)
		require.Equal(t, version, f.Version)
		for key, want := range map[string]int64{
			"u8": 200, "i8": -56, "u16": 200 << 8, "i16": -56 << 8, "u32": 4e9, "i32": -7, "u64": 1 << 40, "i64": -1,
		} {
			v, ok := f.Key(key)
			require.True(t, ok)
			n, ok := v.Int()
			require.True(t, ok, key)
			require.Equal(t, want, n, key)
		}
		v, _ := f.Key("huge")
		_, ok := v.Int()
		require.False(t, ok, "no int64 holds it")
		for _, key := range []string{"f32", "f64"} {
			v, _ = f.Key(key)
			x, ok := v.Float()
			require.True(t, ok)
			require.Equal(t, 0.5, x)
		}
		v, _ = f.Key("bool")
		b, ok := v.Bool()
		require.True(t, b && ok)
		v, _ = f.Key("string")
		s, _ := v.Text()
		require.Equal(t, "Ġhi", s)
		require.Equal(t, []string{"a", "", "ccc"}, texts(f, "strings"))
		m, ok := f.Tensor("m")
		require.True(t, ok)
		require.Equal(t, gguf.Tensor{Name: "m", Type: gguf.F16, Shape: []int{2, 3}, Data: []byte("abcdefghijkl")}, m)
		require.Len(t, f.Tensors()[1].Data, 4*34)
		require.Same(t, &file[len(file)-1], &f.Tensors()[1].Data[4*34-1], "a view, not a copy")
	}
}

func texts(f *gguf.File, key string) (list []string) {
	v, _ := f.Key(key)
	for _, e := range v.Elements() {
		s, _ := e.Text()
		list = append(list, s)
	}
	return list
}

func TestArraysInArrays(t *testing.T) {
	f, err := gguf.Parse("x.gguf", sample().Bytes(t))
	require.NoError(t, err)
	v, _ := f.Key("nested")
	var got []int64
	for _, inner := range v.Elements() {
		for _, e := range inner.Elements() {
			n, _ := e.Int()
			got = append(got, n)
		}
	}
	require.Equal(t, []int64{7, 8, 9, 5}, got)
}

func TestAnotherAlignment(t *testing.T) {
	g := sample()
	g.Alignment = 256
	f, err := gguf.Parse("x.gguf", g.Bytes(t))
	require.NoError(t, err)
	m, _ := f.Tensor("m")
	require.Equal(t, "abcdefghijkl", string(m.Data))
}

// header is a file's beginning that claims some tensors and keys.
func header(version uint32, tensors, keys uint64, rest ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), version)
	b = binary.LittleEndian.AppendUint64(b, tensors)
	return append(binary.LittleEndian.AppendUint64(b, keys), rest...)
}

func key(name string, kind uint32, value ...byte) []byte {
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...)
	return append(binary.LittleEndian.AppendUint32(b, kind), value...)
}

func u64(n ...uint64) (b []byte) {
	for _, v := range n {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// tensor describes tensor "t".
func tensor(typ uint32, offset uint64, dims ...uint64) []byte {
	b := append(u64(1), 't')
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(dims))), u64(dims...)...)
	return append(binary.LittleEndian.AppendUint32(b, typ), u64(offset)...)
}

func TestParseRefuses(t *testing.T) {
	big := make([]byte, 1<<16)
	deep := bytes.Repeat([]byte{9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 1000) // arrays of one array
	with := func(change func(g *modelkit.GGUF)) []byte {
		g := sample()
		change(g)
		return g.Bytes(t)
	}
	cases := []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "truncated"},
		{"other magic", []byte("GGMLxxxxxxxxxxxxxxxxxxxxxxxxxx"), `begins with "GGML"`},
		{"version 1", header(1, 0, 0), "GGUF version 1; supported: 2, 3"},
		{"version 4", header(4, 0, 0), "GGUF version 4"},
		{"big-endian", header(3<<24, 0, 0), "big-endian"},
		{"2^60 keys", header(3, 0, 1<<60), "claims 1152921504606846976 metadata keys; the limit is 65536"},
		{"2^64-1 tensors", header(3, 1<<64-1, 0), "tensors; the limit is"},
		{"keys that are not there", header(3, 0, 9), "metadata key 1 of 9: the file ends"},
		{"key of 2^63 bytes", header(3, 0, 1, u64(1<<63)...), "metadata key 1 of 1: the file ends"},
		{"empty key", header(3, 0, 1, key("", 0, 1)...), "has 0 bytes"},
		{"unknown kind", header(3, 0, 1, key("k", 13, 1)...), `key "k": the file has a value of the unknown kind 13`},
		{"string of 2^64-1 bytes", header(3, 0, 1, key("k", 8, u64(1<<64-1)...)...), `key "k": the file ends`},
		{"array of 2^62 numbers", header(3, 0, 1, key("k", 9, append([]byte{4, 0, 0, 0}, u64(1<<62)...)...)...), `key "k": the file has an array of 4611686018427387904 elements`},
		{"array of 2^61 strings", header(3, 0, 1, key("k", 9, append([]byte{8, 0, 0, 0}, u64(1<<61)...)...)...), "elements of kind string, but only 0 bytes follow"},
		{"array of unknown kind", header(3, 0, 1, key("k", 9, append([]byte{99, 0, 0, 0}, u64(1)...)...)...), "array of the unknown kind 99"},
		{"arrays without end", header(3, 0, 1, key("k", 9, deep...)...), "arrays in arrays, more than 4 deep"},
		{"key twice", header(3, 0, 2, append(key("k", 0, 1), key("k", 0, 1)...)...), `key "k" is there twice`},
		{"odd alignment", header(3, 0, 1, key("general.alignment", 4, 33, 0, 0, 0)...), "power of two"},
		{"no alignment", header(3, 0, 1, key("general.alignment", 4, 0, 0, 0, 0)...), "power of two"},
		{"alignment in words", header(3, 0, 1, key("general.alignment", 8, append(u64(2), "32"...)...)...), "power of two"},
		{"no dimensions", header(3, 1, 0, append(tensor(0, 0), big...)...), `tensor "t" has 0 dimensions`},
		{"five dimensions", header(3, 1, 0, append(tensor(0, 0, 1, 1, 1, 1, 1), big...)...), "has 5 dimensions"},
		{"2^32-1 dimensions", header(3, 1, 0, append(append(u64(1), 't', 255, 255, 255, 255), big...)...), "has 4294967295 dimensions"},
		{"dimension 0", header(3, 1, 0, append(tensor(0, 0, 4, 0), big...)...), `tensor "t" has the dimensions [4 0]`},
		{"negative dimension", header(3, 1, 0, append(tensor(0, 0, 1<<64-1), big...)...), `tensor "t" has the dimensions`},
		{"product overflows", header(3, 1, 0, append(tensor(0, 0, 1<<40, 1<<40), big...)...), "larger than any file"},
		{"product overflows to 0", header(3, 1, 0, append(tensor(0, 0, 1<<32, 1<<32), big...)...), "larger than any file"},
		{"larger than the file", header(3, 1, 0, append(tensor(0, 0, 1<<30), big...)...), `tensor "t" of 4294967296 bytes begins at byte 0`},
		{"offset of 2^63", header(3, 1, 0, append(tensor(0, 1<<63, 4), big...)...), "begins at byte 9223372036854775808"},
		{"offset not aligned", header(3, 1, 0, append(tensor(0, 4, 4), big...)...), "no multiple of the alignment 32"},
		{"unknown type", header(3, 1, 0, append(tensor(4, 0, 4), big...)...), "unknown element type 4"},
		{"row of half a block", header(3, 1, 0, append(tensor(8, 0, 48, 2), big...)...), "rows of 48 elements, which is no multiple of the 32 in a block of type Q8_0"},
		{"tensor twice", header(3, 2, 0, append(append(tensor(0, 0, 4), tensor(0, 32, 4)...), big...)...), `tensor "t" is there twice`},
		{"tensors overlap", with(func(g *modelkit.GGUF) { g.Tensors[0].Dims = []uint64{3, 7} }), `tensors "m" and "q" overlap`},
		{"data cut off", sample().Bytes(t)[:len(sample().Bytes(t))-1], `tensor "q" of 136 bytes`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := gguf.Parse("x.gguf", c.file)
			runtime.ReadMemStats(&after)
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, infer.CodeInvalid, coded.Code)
			require.Equal(t, "x.gguf", coded.Param)
			require.True(t, strings.HasPrefix(coded.Message, "x.gguf: "), coded.Message)
			require.ErrorContains(t, err, c.want)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

// TestEveryTruncation cuts a file at every byte: each is refused.
func TestEveryTruncation(t *testing.T) {
	file := sample().Bytes(t)
	for n := range file {
		_, err := gguf.Parse("x.gguf", file[:n])
		require.Error(t, err, "%d bytes", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Bytes(f))
	f.Add(header(3, 1, 0, append(tensor(12, 0, 256, 2), make([]byte, 400)...)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse("x.gguf", data)
		if err != nil {
			require.ErrorContains(t, err, "x.gguf")
			return
		}
		total := 0
		for _, tensor := range file.Tensors() {
			total += len(tensor.Data)
			require.NotEmpty(t, tensor.Shape)
		}
		require.LessOrEqual(t, total, len(data), "tensors do not overlap")
		for _, name := range []string{"nested", "strings", "k"} {
			v, _ := file.Key(name)
			for _, e := range v.Elements() {
				for range e.Elements() {
				}
			}
		}
	})
}
