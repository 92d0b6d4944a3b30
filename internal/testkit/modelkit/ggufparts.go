package modelkit

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// Parts splits the file as gguf-split does: the first part has the metadata and
// every part its share of the tensors, in order.
func (g *GGUF) Parts(n int) []*GGUF {
	parts := make([]*GGUF, n)
	for i := range parts {
		from, to := i*len(g.Tensors)/n, (i+1)*len(g.Tensors)/n
		parts[i] = &GGUF{Version: g.Version, Tensors: g.Tensors[from:to]}
		if i == 0 {
			parts[i].Keys = append(parts[i].Keys, g.Keys...)
		}
		parts[i].Set("split.no", ggufUint16(i))
		parts[i].Set("split.count", ggufUint16(n))
		parts[i].Set("split.tensors.count", int32(len(g.Tensors)))
	}
	return parts
}

func ggufUint16(n int) GGUFRaw {
	return GGUFRaw{Kind: 2, Bytes: binary.LittleEndian.AppendUint16(nil, uint16(n))}
}

// WriteParts writes parts as stem-00001-of-0000N.gguf and so on, and returns their
// names.
func WriteParts(tb testing.TB, dir, stem string, parts []*GGUF) []string {
	tb.Helper()
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, len(parts))
		WriteFile(tb, dir, names[i], p.Bytes(tb))
	}
	return names
}
