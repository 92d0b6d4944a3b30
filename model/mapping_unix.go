//go:build unix

package model

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a file's bytes, mapped read-only. file is nil for bytes that are
// part of the binary.
type mapping struct {
	data []byte
	file *os.File // kept open to notice a file that shrinks
}

func openMapping(path string) (*mapping, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	m := &mapping{file: file}
	if info.Size() == 0 { // mmap of nothing fails; the reader says what is wrong
		return m, nil
	}
	if int64(int(info.Size())) != info.Size() {
		file.Close()
		return nil, unix.EFBIG
	}
	m.data, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, os.NewSyscallError("mmap", err)
	}
	// A hint only: weights are read once, front to back.
	_ = unix.Madvise(m.data, unix.MADV_SEQUENTIAL)
	return m, nil
}

// shrunk reports whether the file is now shorter than what was mapped: reading
// the missing pages would raise SIGBUS.
func (m *mapping) shrunk() bool {
	if m.file == nil {
		return false
	}
	info, err := m.file.Stat()
	return err != nil || info.Size() < int64(len(m.data))
}

// identity tells a file from all others, and from itself after it was written to. It is
// not ok of bytes that are no file's.
func (m *mapping) identity() (string, bool) {
	if m.file == nil {
		return "", false
	}
	info, err := m.file.Stat()
	if err != nil {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("device %d, inode %d, %d bytes of %d", stat.Dev, stat.Ino, info.Size(), info.ModTime().UnixNano()), true
}

// drop lets go of the pages that are data's alone. Reading them again brings them back.
func (m *mapping) drop(data []byte) {
	if m.file == nil || len(data) == 0 {
		return
	}
	page := os.Getpagesize()
	from := int(uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.data))))
	first, end := (from+page-1)/page*page, (from+len(data))/page*page
	if first < end {
		_ = unix.Madvise(m.data[first:end], unix.MADV_DONTNEED) // a hint only
	}
}

func (m *mapping) close() error {
	if m.file == nil {
		return nil
	}
	var err error
	if m.data != nil {
		err = unix.Munmap(m.data)
		m.data = nil
	}
	if cerr := m.file.Close(); err == nil {
		err = cerr
	}
	m.file = nil
	return err
}
