//go:build unix

package cpu

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil && n >= hugeBytes {
		adviseHuge(b, false)
	}
	return b, err
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
