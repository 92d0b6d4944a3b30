//go:build unix

package cpu

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil && n >= hugeBytes {
		adviseHuge(b, false)
	}
	return b, err
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }

// mapFile maps a regular file, so that all processes that do have one copy of it.
func mapFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info, err = file.Stat(); err != nil || info.Size() == 0 {
		return nil, err
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = unix.Madvise(b, unix.MADV_WILLNEED) // a hint only
	return b, nil
}
