//go:build !amd64

package cpu

import (
	"encoding/binary"
	"unsafe"
)

func readLines(p *byte, lines int) (x uint64) {
	b := unsafe.Slice(p, lines*lineBytes*readStreams)
	stream := lines * lineBytes
	for i := 0; i < stream; i += lineBytes {
		for s := range readStreams {
			x ^= binary.NativeEndian.Uint64(b[s*stream+i:])
		}
	}
	return x
}
