package cpu

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// keeping is what a backend keeps, or takes from what was kept.
type keeping struct {
	reader *keptReader // nil unless OpenKept found a file
	writer *keptWriter // nil unless KeepMatrices began one
}

// keptWriter writes bands as they are made, to a file that has another name until it is
// whole.
type keptWriter struct {
	path    string
	file    *os.File
	key     [32]byte
	at      uint64
	entries []keptEntry
	err     error // the first one; nothing is written after it
}

const (
	unfinished = ".incomplete"
	// abandoned is when an unfinished file is taken for one whose writer was killed.
	abandoned = time.Hour
)

// KeepMatrices implements compute.WeightsKeeper.
func (b *Backend) KeepMatrices(path string, key [32]byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	removeAbandoned(path)
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+unfinished)
	if err != nil {
		return err
	}
	b.kept.writer = &keptWriter{path: path, file: file, key: key}
	return nil
}

// removeAbandoned removes what writers left that were killed.
func removeAbandoned(path string) {
	left, err := filepath.Glob(path + ".*" + unfinished)
	if err != nil {
		return // the path has a pattern in it: they stay
	}
	for _, name := range left {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(name) // the next writer tries again
		}
	}
}

// EndKept implements compute.WeightsKeeper.
func (b *Backend) EndKept(keep bool) error {
	w := b.kept.writer
	b.kept = keeping{}
	if w == nil {
		return nil
	}
	return w.end(keep)
}

// keep writes a matrix's bands.
func (w *keptWriter) keep(m *matrix) {
	for _, band := range m.bands {
		e := band.entry()
		e.Offset, e.Sum = w.at, crc32.Checksum(band.data, castagnoli)
		w.entries = append(w.entries, e)
		w.write(band.data)
		if rest := w.at % keptAlign; rest != 0 {
			w.write(make([]byte, keptAlign-rest))
		}
	}
}

func (w *keptWriter) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.file.Write(b)
		w.at += uint64(n)
	}
}

// end completes the file and gives it its name, or removes it. It need not be on the
// disk by then: its sums tell whether all of it has come there.
func (w *keptWriter) end(keep bool) error {
	var directory []byte
	for _, e := range w.entries {
		directory = appendFixed(directory, e)
	}
	t := keptTrailer{Key: w.key, Directory: w.at, NumBands: uint32(len(w.entries))}
	w.write(directory)
	w.write(t.seal(directory))
	err := errors.Join(w.err, w.file.Close())
	if err == nil && len(w.entries) > maxKeptBands {
		err = fmt.Errorf("%d bands are more than the %d of a file", len(w.entries), maxKeptBands)
	}
	if keep && err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if removed := os.Remove(w.file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
