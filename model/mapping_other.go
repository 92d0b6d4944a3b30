//go:build !unix

package model

import "io"

// mapping is a file's bytes, read into memory where mmap is not at hand. A file
// that shrinks later cannot hurt.
type mapping struct{ data []byte }

func openMapping(path string) (*mapping, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, info.Size()) // the size of a real file, not a claim of its content
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, err
	}
	return &mapping{data: data}, nil
}

func (m *mapping) shrunk() bool { return false }

func (m *mapping) identity() (string, bool) { return "", false }

func (m *mapping) drop([]byte) {}

func (m *mapping) close() error {
	m.data = nil
	return nil
}
