package gguf

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// Bounds of a header: generous for any model.
const (
	maxHeaderBytes = 1 << 30
	maxKeys        = 1 << 16
	maxTensors     = 1 << 17
	maxDims        = 4
	maxNameBytes   = 1 << 16 // the format's own
	maxAlignment   = 1 << 20

	defaultAlignment = 32
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // slowest first, as elsewhere: a matrix is [rows, cols]; the file has it the other way round
	Data  []byte // blocks of the type, row after row; a view into the parsed bytes, to be read only
	Part  int    // which of the files it lies in, see Join; 0 = the first
}

// File is a parsed file. Its values and tensors are valid as long as the parsed
// bytes.
type File struct {
	Version uint32

	name    string
	keys    map[string]Value
	tensors []Tensor
	offsets []uint64 // parallel to tensors, from the start of the data
	byName  map[string]int
}

// Name returns the file's name for errors.
func (f *File) Name() string { return f.name }

// Key returns the value of a metadata key.
func (f *File) Key(key string) (Value, bool) {
	v, ok := f.keys[key]
	return v, ok
}

// Tensors returns all tensors in the directory's order.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Parse reads the header of a whole file's bytes. name is the file's name for
// errors, which are *infer.Error with CodeInvalid.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, keys: map[string]Value{}, byName: map[string]int{}}
	c := &cursor{data: data[:min(len(data), maxHeaderBytes)]}
	numTensors, numKeys, err := f.prologue(c)
	if err != nil {
		return nil, err
	}
	if err := f.metadata(c, numKeys); err != nil {
		return nil, err
	}
	if err := f.directory(c, numTensors); err != nil {
		return nil, err
	}
	return f, f.place(data, c.at)
}

// fault is an error about the file.
func (f *File) fault(format string, args ...any) error {
	return infer.Errorf(infer.CodeInvalid, f.name, "%s: "+format, append([]any{f.name}, args...)...)
}

// prologue reads what comes before the metadata.
func (f *File) prologue(c *cursor) (numTensors, numKeys uint64, err error) {
	if magic := c.take(4); c.fault == "" && string(magic) != "GGUF" {
		return 0, 0, f.fault("is no GGUF file: it begins with %q, not \"GGUF\"", magic)
	}
	f.Version = c.uint32()
	numTensors, numKeys = c.uint64(), c.uint64()
	switch {
	case c.fault != "":
		return 0, 0, f.fault("%s", c.fault)
	case f.Version&0xffff == 0 && f.Version != 0:
		return 0, 0, f.fault("is a big-endian GGUF file; only little-endian ones are supported")
	case f.Version != 2 && f.Version != 3:
		return 0, 0, f.fault("is of GGUF version %d; supported: 2, 3", f.Version)
	case numKeys > maxKeys:
		return 0, 0, f.fault("claims %d metadata keys; the limit is %d", numKeys, maxKeys)
	case numTensors > maxTensors:
		return 0, 0, f.fault("claims %d tensors; the limit is %d", numTensors, maxTensors)
	}
	return numTensors, numKeys, nil
}

func (f *File) metadata(c *cursor, n uint64) error {
	for i := range n {
		key := c.string()
		switch {
		case c.fault != "":
			return f.fault("metadata key %d of %d: the file %s", i+1, n, c.fault)
		case len(key) == 0 || len(key) > maxNameBytes:
			return f.fault("metadata key %d of %d has %d bytes; it must have from 1 to %d", i+1, n, len(key), maxNameBytes)
		}
		v := Value{Kind: Kind(c.uint32())}
		c.value(&v, 0)
		if c.fault != "" {
			return f.fault("metadata key %q: the file %s", clip(key), c.fault)
		}
		if _, ok := f.keys[string(key)]; ok {
			return f.fault("metadata key %q is there twice", clip(key))
		}
		f.keys[string(key)] = v
	}
	return nil
}

// directory reads the descriptions of the tensors.
func (f *File) directory(c *cursor, n uint64) error {
	for i := range n {
		name := c.string()
		numDims := c.uint32()
		switch {
		case c.fault != "":
			return f.fault("tensor %d of %d: the file %s", i+1, n, c.fault)
		case len(name) == 0 || len(name) > maxNameBytes:
			return f.fault("the name of tensor %d of %d has %d bytes; it must have from 1 to %d", i+1, n, len(name), maxNameBytes)
		case numDims == 0 || numDims > maxDims:
			return f.fault("tensor %q has %d dimensions; it must have from 1 to %d", clip(name), numDims, maxDims)
		}
		var dims [maxDims]uint64
		for d := range numDims {
			dims[d] = c.uint64()
		}
		t := Tensor{Name: string(name), Type: Type(c.uint32())}
		offset := c.uint64()
		if c.fault != "" {
			return f.fault("tensor %q: the file %s", clip(name), c.fault)
		}
		if _, ok := f.byName[t.Name]; ok {
			return f.fault("tensor %q is there twice", clip(name))
		}
		for _, d := range slices.Backward(dims[:numDims]) {
			if d == 0 || d >= 1<<48 {
				return f.fault("tensor %q has the dimensions %d; each must be from 1 to 2^48-1", clip(name), dims[:numDims])
			}
			t.Shape = append(t.Shape, int(d))
		}
		f.byName[t.Name] = len(f.tensors)
		f.tensors, f.offsets = append(f.tensors, t), append(f.offsets, offset)
	}
	return nil
}

// place finds the tensors' bytes: the data begins at the first multiple of the
// alignment after the header.
func (f *File) place(data []byte, headerEnd int) error {
	alignment := uint64(defaultAlignment)
	if v, ok := f.Key("general.alignment"); ok {
		n, isInt := v.Int()
		if !isInt || n <= 0 || n > maxAlignment || n&(n-1) != 0 {
			return f.fault("metadata key \"general.alignment\" must be a power of two from 1 to %d", maxAlignment)
		}
		alignment = uint64(n)
	}
	begin := (uint64(headerEnd) + alignment - 1) / alignment * alignment
	body := data[min(begin, uint64(len(data))):]
	for i := range f.tensors {
		t, offset := &f.tensors[i], f.offsets[i]
		size, err := f.size(t)
		if err != nil {
			return err
		}
		if offset%alignment != 0 {
			return f.fault("tensor %q begins at byte %d of the data, which is no multiple of the alignment %d", t.Name, offset, alignment)
		}
		if offset > uint64(len(body)) || size > uint64(len(body))-offset {
			return f.fault("tensor %q of %d bytes begins at byte %d of the data, but the file has only %d: it is truncated (download it again) or corrupt", t.Name, size, offset, len(body))
		}
		t.Data = body[offset : offset+size : offset+size]
	}
	return f.apart()
}

// size returns a tensor's bytes.
func (f *File) size(t *Tensor) (uint64, error) {
	l, ok := layouts[t.Type]
	if !ok {
		return 0, f.fault("tensor %q has the unknown element type %d", t.Name, uint32(t.Type))
	}
	row := t.Shape[len(t.Shape)-1]
	if row%l.elements != 0 {
		return 0, f.fault("tensor %q has rows of %d elements, which is no multiple of the %d in a block of type %s", t.Name, row, l.elements, l.name)
	}
	size := uint64(row / l.elements * l.bytes) // below 2^48 * 8
	for _, d := range t.Shape[:len(t.Shape)-1] {
		hi, lo := bits.Mul64(size, uint64(d))
		if hi != 0 || lo >= 1<<62 {
			return 0, f.fault("tensor %q of shape %d is larger than any file", t.Name, t.Shape)
		}
		size = lo
	}
	return size, nil
}

// apart checks that no two tensors share bytes.
func (f *File) apart() error {
	order := make([]int, len(f.tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.offsets[a], f.offsets[b]) })
	for i, second := range order[min(1, len(order)):] {
		first := order[i]
		end := f.offsets[first] + uint64(len(f.tensors[first].Data))
		if end > f.offsets[second] {
			return f.fault("tensors %q and %q overlap: one ends at byte %d of the data, the other begins at %d",
				f.tensors[first].Name, f.tensors[second].Name, end, f.offsets[second])
		}
	}
	return nil
}

// clip shortens a name for an error message.
func clip(name []byte) string {
	const limit = 80
	if len(name) > limit {
		return string(name[:limit]) + "…"
	}
	return string(name)
}
