//go:build !unix

package cpu

import (
	"errors"
	"unsafe"
)

// mapMemory takes 64-byte words from the Go heap, which has no pointers to scan.
func mapMemory(n int) ([]byte, error) {
	words := make([][64]byte, (n+63)/64)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}

func unmapMemory([]byte) error { return nil }

func mapFile(string) ([]byte, error) { return nil, errors.ErrUnsupported }
