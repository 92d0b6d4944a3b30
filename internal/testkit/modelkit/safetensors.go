package modelkit

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tensor is a tensor to be written: row-major values, rounded to the file's
// element type.
type Tensor struct {
	Name   string
	Shape  []int
	Values []float32
}

// Safetensors encodes tensors as a file of one element type: F32, F16 or BF16.
// Values must be representable in it.
func Safetensors(tb testing.TB, dtype string, tensors ...Tensor) []byte {
	tb.Helper()
	entries := make([]string, len(tensors))
	var body []byte
	for i, t := range tensors {
		begin := len(body)
		for _, v := range t.Values {
			body = appendElement(tb, body, dtype, v)
		}
		shape, err := json.Marshal(t.Shape)
		require.NoError(tb, err)
		entries[i] = fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, t.Name, dtype, shape, begin, len(body))
	}
	return Frame("{"+strings.Join(entries, ",")+"}", body)
}

// Frame puts a header before a body, whatever they hold.
func Frame(header string, body []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), body...)
}

func appendElement(tb testing.TB, b []byte, dtype string, v float32) []byte {
	switch dtype {
	case "F32":
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	case "BF16":
		bits := math.Float32bits(v)
		require.Zero(tb, bits&0xffff, "%g is not a BF16 value", v)
		return binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
	}
	require.Equal(tb, "F16", dtype)
	return binary.LittleEndian.AppendUint16(b, halfBits(tb, v))
}

// halfBits encodes zero and normal F16 values.
func halfBits(tb testing.TB, v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	if v == 0 {
		return sign
	}
	exponent := int(bits>>23&0xff) - 127 + 15
	require.True(tb, exponent > 0 && exponent < 31 && bits&0x1fff == 0, "%g is not a normal F16 value", v)
	return sign | uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}

// WriteFile writes one file of a folder.
func WriteFile(tb testing.TB, dir, name string, content []byte) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(filepath.Join(dir, name), content, 0o600))
}
