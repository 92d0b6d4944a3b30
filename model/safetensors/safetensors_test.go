package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model/safetensors"
)

func TestParse(t *testing.T) {
	body := []byte("abcdefghijkl")
	file := modelkit.Frame(`{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,2],"data_offsets":[4,12]},`+
		`"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},`+
		`"odd":{"dtype":"F4","shape":[],"data_offsets":[12,12]}}   `, body)
	f, err := safetensors.Parse("x.safetensors", file)
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 4)
	require.Equal(t, "b", f.Tensors()[0].Name, "the header's order is kept")
	b, ok := f.Lookup("b")
	require.True(t, ok)
	require.Equal(t, safetensors.Tensor{Name: "b", DType: "F16", Shape: []int{2, 2}, Data: []byte("efghijkl")}, b)
	require.Equal(t, 4, b.NumElements())
	require.Same(t, &file[len(file)-8], &b.Data[0], "a view, not a copy")
	require.Equal(t, 8, cap(b.Data))
	_, ok = f.Lookup("c")
	require.False(t, ok)
}

func entry(dtype, shape, offsets string) string {
	return `{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}`
}

func TestParseRefuses(t *testing.T) {
	length := func(n uint64, rest string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), rest...)
	}
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 123456\n"
	eight := make([]byte, 8)
	f32 := entry("F32", "[1]", "[0,4]")
	cases := []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "empty (0 bytes)"},
		{"git-lfs pointer", []byte(pointer), "git-lfs pointer, not the weights: run `git lfs pull`"},
		{"web page", []byte("\n<!DOCTYPE html>\n<html><head>"), "HTML page"},
		{"web page without doctype", []byte("<HTML><body>Sign in</body>"), "HTML page"},
		{"server's message", []byte(`{"error":"Access to model is restricted"}`), "server's error message"},
		{"hub's message", []byte("Entry not found"), "server's error message"},
		{"pickle", []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"), "PyTorch checkpoint"},
		{"zip", []byte("PK\x03\x04\x00\x00\x08\x08\x00\x00"), "PyTorch checkpoint"},
		{"GGUF", []byte("GGUF\x03\x00\x00\x00\x00\x00"), "GGUF file"},
		{"five bytes", []byte("\x01\x00\x00\x00\x00"), "5 bytes, too few"},
		{"zeros", make([]byte, 4096), "no JSON header"},
		{"header of 2^40", length(1<<40, "{}"), "claim a header of 1099511627776 bytes, the limit is 100000000"},
		{"header of 2^64-1", length(1<<64-1, "{}"), "the limit is 100000000"},
		{"header longer than the file", length(99_999_999, "{}"), "ends inside its header: 99999999 bytes claimed, 2 there"},
		{"text in place of the header", length(9, "some text"), "no JSON header"},
		{"header cut off", modelkit.Frame(`{"a":{"dtype":"F32"`, nil), "broken"},
		{"two objects", modelkit.Frame(`{} {}`, nil), "goes on after"},
		{"trailing bytes in the header", modelkit.Frame(`{}x`, nil), "goes on after"},
		{"metadata of numbers", modelkit.Frame(`{"__metadata__":{"n":1}}`, nil), "__metadata__"},
		{"entry is a list", modelkit.Frame(`{"a":[]}`, nil), `"a" is broken`},
		{"unknown member", modelkit.Frame(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, eight), `"a" is broken`},
		{"no dtype", modelkit.Frame(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, eight), "needs dtype"},
		{"no shape", modelkit.Frame(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, eight), "needs dtype"},
		{"one offset", modelkit.Frame(`{"a":`+entry("F32", "[1]", "[0]")+`}`, eight), "two data_offsets"},
		{"negative dimension", modelkit.Frame(`{"a":`+entry("F32", "[-1]", "[0,4]")+`}`, eight), "negative number -1"},
		{"negative offset", modelkit.Frame(`{"a":`+entry("F32", "[1]", "[-4,0]")+`}`, eight), "negative number -4"},
		{"fraction", modelkit.Frame(`{"a":`+entry("F32", "[1.5]", "[0,4]")+`}`, eight), `"a" is broken`},
		{"many dimensions", modelkit.Frame(`{"a":`+entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")+`}`, eight), "more than 8 numbers"},
		{"overflowing shape", modelkit.Frame(`{"a":`+entry("F32", "[4294967296,4294967296]", "[0,4]")+`}`, eight), "absurdly large"},
		{"offsets backwards", modelkit.Frame(`{"a":`+entry("F32", "[1]", "[4,0]")+`}`, eight), "run backwards"},
		{"offsets beyond the file", modelkit.Frame(`{"a":`+entry("F32", "[3]", "[0,12]")+`}`, eight), `tensor "a" ends at byte 12 of the data, but the file has only 8: it is truncated`},
		{"size against shape", modelkit.Frame(`{"a":`+entry("F32", "[3]", "[0,8]")+`}`, eight), `tensor "a": F32 [3] takes 12 bytes, but its data_offsets [0, 8] hold 8`},
		{"overlap", modelkit.Frame(`{"a":`+entry("F32", "[2]", "[0,8]")+`,"b":`+entry("F16", "[2]", "[4,8]")+`}`, eight), `tensors "a" and "b" overlap`},
		{"same bytes twice", modelkit.Frame(`{"a":`+f32+`,"b":`+f32+`}`, eight[:4]), "overlap"},
		{"twice the same name", modelkit.Frame(`{"a":`+f32+`,"a":`+entry("F32", "[1]", "[4,8]")+`}`, eight), "listed twice"},
		{"gap", modelkit.Frame(`{"a":`+entry("F32", "[1]", "[4,8]")+`}`, eight), "bytes 0 to 4 of the data belong to no tensor"},
		{"rest", modelkit.Frame(`{"a":`+f32+`}`, eight), "8 bytes, but its tensors take only 4"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := safetensors.Parse("model.safetensors", c.file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "model.safetensors: ")
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, infer.CodeInvalid, coded.Code)
		})
	}
}

// A length whose bytes happen to look like another format is still a length.
func TestHeaderLengthMayLookLikeText(t *testing.T) {
	for _, n := range []int{'{', 0x280, '<'} {
		header := `{"a":` + entry("F32", "[1]", "[0,4]") + `}`
		_, err := safetensors.Parse("x", modelkit.Frame(header+strings.Repeat(" ", n-len(header)), make([]byte, 4)))
		require.NoError(t, err, "%d", n)
	}
}

// Claims must not be believed with memory.
func TestParseAllocatesByWhatIsThere(t *testing.T) {
	claims := [][]byte{
		append(binary.LittleEndian.AppendUint64(nil, 1<<40), "{}"...),
		append(binary.LittleEndian.AppendUint64(nil, 99_999_999), "{}"...),
		modelkit.Frame(`{"a":`+entry("F32", "[1073741824,1073741824]", "[0,4611686018427387904]")+`}`, nil),
	}
	for _, file := range claims {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := safetensors.Parse("x", file)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(modelkit.Frame(`{"__metadata__":{"format":"pt"},"a":`+entry("BF16", "[2,3]", "[0,12]")+`}`, make([]byte, 12)))
	f.Add(modelkit.Frame(`{"a":`+entry("F32", "[1]", "[0,4]")+`,"b":`+entry("U8", "[]", "[4,5]")+`}  `, make([]byte, 5)))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\n"))
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 1<<40), "{}"...))
	f.Add(modelkit.Frame(`{"a":`+entry("F16", "[9223372036854775807,2]", "[0,4]")+`}`, make([]byte, 4)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.Parse("f", data)
		if err != nil {
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			return
		}
		total := 0
		for _, tensor := range file.Tensors() {
			total += len(tensor.Data)
			require.True(t, len(tensor.Data) == 0 || bytes.Contains(data, tensor.Data))
			require.GreaterOrEqual(t, tensor.NumElements(), 0)
			got, ok := file.Lookup(tensor.Name)
			require.True(t, ok)
			require.Equal(t, tensor, got)
		}
		n := binary.LittleEndian.Uint64(data)
		require.Equal(t, len(data)-8-int(n), total, "the tensors tile the data")
	})
}
