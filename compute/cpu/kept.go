package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	"github.com/troupe-llm/troupe/compute"
)

// A file of kept weights is there to be mapped by the machine that wrote it, not to be
// exchanged. All integers are little-endian:
//
//	bands       one after another, each on a multiple of keptAlign, as they are in memory
//	directory   a keptEntry per band
//	trailer     keptTrailer, the last bytes of the file
//
// The sums, CRC-32C, find damage, not malice: who can write the file can write the
// model as well.
const (
	keptMagic    = "TROUPEWT"
	keptLayout   = 1 // changes whenever packed tiles do
	keptAlign    = 64
	maxKeptBands = 1 << 20
)

// keptEntry describes a band.
type keptEntry struct {
	Offset, Size uint64 // bytes
	Rows, Cols   uint64
	TileBytes    uint32
	Sum          uint32 // of the band
	Format       uint8  // of a band that is not quantised
	Type         uint8  // of one that is
	Quantised    bool
}

// keptTrailer says what the file is.
type keptTrailer struct {
	Key        [32]byte
	Directory  uint64 // offset
	NumBands   uint32
	Sum        uint32 // of the directory
	Layout     uint32
	TrailerSum uint32 // of the trailer with a zero here
	Magic      [8]byte
}

var (
	castagnoli       = crc32.MakeTable(crc32.Castagnoli)
	keptEntryBytes   = binary.Size(keptEntry{})
	keptTrailerBytes = binary.Size(keptTrailer{})
)

// appendFixed encodes a struct of fixed size.
func appendFixed(b []byte, v any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

// seal returns the bytes of the trailer with its sums set.
func (t keptTrailer) seal(directory []byte) []byte {
	t.Sum, t.Layout, t.TrailerSum = crc32.Checksum(directory, castagnoli), keptLayout, 0
	copy(t.Magic[:], keptMagic)
	t.TrailerSum = crc32.Checksum(appendFixed(nil, t), castagnoli)
	return appendFixed(nil, t)
}

// keptReader takes bands from a mapped file, in the order in which they were kept.
type keptReader struct {
	data    []byte
	entries []keptEntry // what is left
}

var errDamaged = errors.New("is damaged")

// parseKept reads what a file says of itself. No size in it is believed unchecked.
func parseKept(data []byte, key [32]byte) (*keptReader, error) {
	var t keptTrailer
	end := len(data) - keptTrailerBytes
	if end < 0 {
		return nil, errDamaged
	}
	if _, err := binary.Decode(data[end:], binary.LittleEndian, &t); err != nil {
		return nil, err
	}
	size := uint64(t.NumBands) * uint64(keptEntryBytes)
	switch {
	case string(t.Magic[:]) != keptMagic:
		return nil, errDamaged
	case t.Layout != keptLayout:
		return nil, fmt.Errorf("has layout %d, not %d", t.Layout, keptLayout)
	case t.Key != key:
		return nil, errors.New("is of another model")
	case t.NumBands > maxKeptBands || size > uint64(end) || t.Directory != uint64(end)-size:
		return nil, errDamaged
	}
	directory := data[t.Directory:end]
	if !bytes.Equal(t.seal(directory), data[end:]) {
		return nil, errDamaged
	}
	r := &keptReader{data: data, entries: make([]keptEntry, t.NumBands)}
	for i := range r.entries {
		e := &r.entries[i]
		if _, err := binary.Decode(directory[i*keptEntryBytes:], binary.LittleEndian, e); err != nil {
			return nil, err
		}
		if e.Offset%keptAlign != 0 || e.Offset > t.Directory || e.Size > t.Directory-e.Offset {
			return nil, errDamaged
		}
	}
	return r, nil
}

// entry is what is kept of a band.
func (w *band) entry() keptEntry {
	e := keptEntry{
		Size: uint64(w.tiles) * uint64(w.tileBytes), Rows: uint64(w.rows), Cols: uint64(w.cols), TileBytes: uint32(w.tileBytes),
		Quantised: w.quantised,
	}
	if w.quantised {
		e.Type = uint8(w.quant)
	} else {
		e.Format = uint8(w.format)
	}
	return e
}

// next gives w the memory of the next band, if that is as w is.
func (r *keptReader) next(w *band) bool {
	if len(r.entries) == 0 {
		return false
	}
	e, want := r.entries[0], w.entry()
	want.Offset, want.Sum = e.Offset, e.Sum
	if e != want {
		r.entries = nil // what follows is not what will be wanted, either
		return false
	}
	r.entries = r.entries[1:]
	w.data = r.data[e.Offset : e.Offset+e.Size : e.Offset+e.Size]
	return true
}

// sumTask compares the sums of bands, one per chunk, with what was kept.
type sumTask struct {
	*keptReader
	damaged []bool
}

func (t *sumTask) run(chunk, _ int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	e := &t.entries[chunk]
	t.damaged[chunk] = crc32.Checksum(t.data[e.Offset:e.Offset+e.Size], castagnoli) != e.Sum
}

// check compares all sums, on all threads.
func (b *Backend) check(path string, r *keptReader) error {
	t := &sumTask{keptReader: r, damaged: make([]bool, len(r.entries))}
	if err := guardRead(path, func() { b.pool.run(t, len(r.entries)) }); err != nil {
		return err
	}
	for _, damaged := range t.damaged {
		if damaged {
			return errDamaged
		}
	}
	return nil
}

// OpenKept implements compute.WeightsKeeper.
func (b *Backend) OpenKept(path string, key [32]byte) error {
	data, err := b.weights.mapFile(path)
	if err != nil {
		return err
	}
	r, err := parseKept(data, key)
	if err == nil {
		err = b.check(path, r)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s %w", path, err), b.weights.free(data))
	}
	b.kept.reader = r
	return nil
}

// KeptMatrix implements compute.WeightsKeeper.
func (b *Backend) KeptMatrix(parts ...compute.RawTensor) (compute.Matrix, bool) {
	if b.kept.reader == nil {
		return nil, false
	}
	m, _, err := layOut(parts)
	if err != nil {
		return nil, false
	}
	for _, w := range m.bands {
		if !b.kept.reader.next(w) {
			return nil, false
		}
	}
	return m, true
}
