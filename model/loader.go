package model

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
)

// loader brings a checkpoint's tensors into a backend. Bytes go from the
// mapped file straight to the backend, which repacks them; only when another
// element type is asked for do they pass through scratch.
type loader struct {
	checkpoint *checkpoint
	backend    compute.Backend
	dtype      compute.DType // of matrices in memory that are not quantised; a quantised type: as in the file
	quantize   compute.DType // what matrices are quantised to at load; F32 = not at all
	progress   func(done, total int64)
	kept       keptWeights
	done       int64 // bytes of the file
	total      int64
	scratch    []byte // converted parts of the item at hand
}

// fileDTypes maps the formats' names of the element types that weights may have.
var fileDTypes = map[string]compute.DType{
	"F32": compute.F32, "F16": compute.F16, "BF16": compute.BF16,
	"Q8_0": compute.Q8_0, "Q4_0": compute.Q4_0, "Q4_K": compute.Q4_K, "Q5_K": compute.Q5_K, "Q6_K": compute.Q6_K,
}

// checkpointDType returns the element type of most of the model: that of the
// embedding table, which every model has.
func checkpointDType(c *checkpoint, items []item) (compute.DType, error) {
	t, err := c.find(items[0].parts[0])
	return t.DType, err
}

// find returns a tensor whose shape and element type are as expected.
func (c *checkpoint) find(want tensorSpec) (compute.RawTensor, error) {
	t, ok := c.tensors[want.name]
	if !ok {
		return compute.RawTensor{}, infer.Errorf(infer.CodeInvalid, want.name,
			"tensor %q is missing: expected with shape %v; the config belongs to another model or the download is incomplete", want.name, want.shape())
	}
	if !slices.Equal(t.Shape, want.shape()) {
		return compute.RawTensor{}, infer.Errorf(infer.CodeInvalid, want.name,
			"%s: tensor %q has shape %v; config.json asks for %v", t.shard.name, want.name, t.Shape, want.shape())
	}
	dtype, ok := fileDTypes[t.DType]
	_, quantised := dtype.Quant()
	if !ok || quantised && want.cols == 0 {
		return compute.RawTensor{}, infer.Errorf(infer.CodeInvalid, want.name,
			"%s: tensor %q has element type %s; supported: F32, F16, BF16, and of matrices Q8_0, Q4_0, Q4_K, Q5_K, Q6_K", t.shard.name, want.name, t.DType)
	}
	raw := compute.RawTensor{Name: want.name, DType: dtype, Rows: want.rows, Cols: want.cols, Data: t.Data}
	if want.cols == 0 {
		raw.Rows, raw.Cols = 1, want.rows
	}
	return raw, nil
}

// check looks at every item before any is loaded, so that a broken folder is
// refused at once. It returns the bytes and elements to load.
func (c *checkpoint) check(items []item, tied bool) (bytes, elements int64, err error) {
	used := map[string]bool{}
	for _, it := range items {
		for _, part := range it.parts {
			t, err := c.find(part)
			if err != nil {
				return 0, 0, err
			}
			used[part.name] = true
			bytes += int64(len(t.Data))
			elements += int64(t.Rows) * int64(t.Cols)
		}
	}
	var unknown []string
	for name := range c.tensors {
		if !used[name] && !ignorable(name, tied) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return 0, 0, infer.Errorf(infer.CodeInvalid, unknown[0],
			"%d tensors have no place in the architecture that config.json describes, the first is %q: running without them would give wrong output", len(unknown), unknown[0])
	}
	return bytes, elements, nil
}

// ignorable reports tensors that some checkpoints carry and no model needs.
func ignorable(name string, tied bool) bool {
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") || tied && name == "lm_head.weight"
}

// run loads all items. A file that shrinks meanwhile gives an error.
func (l *loader) run(items []item) error {
	l.report(0)
	next := ahead{c: l.checkpoint}
	l.readAhead(&next, items[0])
	for i, it := range items {
		if err := next.wait(); err != nil {
			return err
		}
		if i+1 < len(items) {
			l.readAhead(&next, items[i+1])
		}
		if err := l.loadMapped(it); err != nil {
			_ = next.wait() // the first error is the one to report
			return err
		}
		next.drop(it)
	}
	return nil
}

// readAhead starts to read what an item is made of, if it will be.
func (l *loader) readAhead(a *ahead, it item) {
	if !l.kept.taking || it.matrix == nil {
		a.start(it)
	}
}

// loadMapped loads an item whose bytes may go away meanwhile.
func (l *loader) loadMapped(it item) error {
	name := it.parts[0].name
	err := reading(name, "the file of tensor "+strconv.Quote(name), func() error { return l.load(it) })
	if coded := (*infer.Error)(nil); err == nil || errors.As(err, &coded) {
		return err
	}
	for _, spec := range it.parts { // the backend says what it met, not why
		if t, ok := l.checkpoint.tensors[spec.name]; ok && t.shard.m.shrunk() {
			return t.shard.shorter()
		}
	}
	return err
}

// reading runs f, which reads a mapped file. A page that the file no longer has
// raises SIGBUS: on this goroutine that becomes an error about what, and param.
func reading(param, what string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			if _, fault := v.(interface{ Addr() uintptr }); !fault {
				panic(v)
			}
			err = infer.Errorf(infer.CodeInvalid, param, "%s became shorter or unreadable while it was being loaded", what)
		}
	}()
	return f()
}

func (l *loader) load(it item) (err error) {
	if l.kept.take(l, it) {
		l.report(l.fileBytes(it))
		return nil
	}
	parts := make([]compute.RawTensor, len(it.parts))
	l.scratch = l.scratch[:0]
	for i, spec := range it.parts {
		if parts[i], err = l.part(spec, it); err != nil {
			return err
		}
	}
	if it.matrix != nil {
		*it.matrix, err = l.backend.NewMatrix(parts...)
	} else {
		*it.vector, err = l.vector(it, parts)
	}
	if err != nil {
		return err
	}
	l.report(l.fileBytes(it))
	return nil
}

// fileBytes returns the bytes that an item has in the files.
func (l *loader) fileBytes(it item) (n int64) {
	for _, spec := range it.parts {
		n += int64(len(l.checkpoint.tensors[spec.name].Data))
	}
	return n
}

// vector makes a vector of parts, one behind the other.
func (l *loader) vector(it item, parts []compute.RawTensor) (compute.Vector, error) {
	if len(parts) == 1 && it.offset == 0 {
		return l.backend.NewVector(parts[0])
	}
	whole := compute.RawTensor{Name: parts[0].Name, DType: compute.F32, Rows: 1}
	for _, t := range parts {
		whole.Cols += t.Cols
	}
	whole.Data = l.inScratch(4*whole.Cols, func(dst []byte) []byte {
		for _, t := range parts {
			for i := range t.Cols {
				v := element(t.Data[i*t.DType.Size():], t.DType) + it.offset
				dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
			}
		}
		return dst
	})
	return l.backend.NewVector(whole)
}

// part returns one tensor's bytes, which ahead has read, in the element type
// that the backend is to hold.
func (l *loader) part(spec tensorSpec, it item) (compute.RawTensor, error) {
	t, err := l.checkpoint.find(spec)
	if err != nil {
		return t, err
	}
	if heads := l.checkpoint.tensors[spec.name].pairedHeads; heads > 0 {
		t.Data = l.inScratch(len(t.Data), func(dst []byte) []byte { return appendUnpaired(dst, t.Data, spec.rows, heads) })
	}
	if it.matrix == nil {
		return t, nil
	}
	typed := l.typed(t, it)
	if typed.DType == t.DType {
		return typed, nil // the file's own values
	}
	typed.Data = l.inScratch(t.Rows*t.Cols*typed.DType.Size(), func(dst []byte) []byte {
		dst, err = appendConverted(dst, t, typed.DType)
		return dst
	})
	return typed, err
}

// typed returns t with the types that a matrix is given to the backend in.
func (l *loader) typed(t compute.RawTensor, it item) compute.RawTensor {
	switch to := l.heldAs(it, t); {
	case to == t.DType:
	case isQuantised(to):
		t.Quantize = to
	default:
		t.DType = to
	}
	return t
}

func isQuantised(d compute.DType) bool {
	_, ok := d.Quant()
	return ok
}

// quantizeTo returns what an item's matrix of cols columns is to be quantised to at
// load, F32 for nothing. Where four bits are asked for, the matrices over the
// vocabulary get eight: every token passes through both.
func (l *loader) quantizeTo(it item, cols int) compute.DType {
	to, ok := l.quantize.Quant()
	switch {
	case !ok || it.role == router || cols%to.Elements() != 0:
		return compute.F32
	case it.role == vocabulary:
		return compute.Q8_0
	}
	return l.quantize
}

// held is what the items will be in the backend.
type held struct {
	bytes      int64                   // of memory, to a few percent
	vocabulary []int64                 // those of the embedding table and, unless it is the same, the output matrix
	elements   map[compute.DType]int64 // of matrices
	quantised  bool                    // at load, at least one matrix
}

// held sums up items that check has found.
func (l *loader) held(items []item) (held, error) {
	h := held{elements: map[compute.DType]int64{}}
	for _, it := range items {
		for _, spec := range it.parts {
			t, err := l.checkpoint.find(spec)
			if err != nil {
				return h, err
			}
			if it.matrix == nil {
				h.bytes += 4 * int64(t.Cols)
				continue
			}
			d := l.heldAs(it, t)
			h.elements[d] += int64(t.Rows) * int64(t.Cols)
			h.quantised = h.quantised || isQuantised(d) && !isQuantised(t.DType)
			n := int64(t.Rows) * int64(d.RowBytes(t.Cols))
			h.bytes += n
			if it.role == vocabulary {
				h.vocabulary = append(h.vocabulary, n)
			}
		}
	}
	return h, nil
}

func (h *held) decodeBytes() int64 {
	if len(h.vocabulary) < 2 {
		return h.bytes
	}
	return h.bytes - h.vocabulary[0]
}

// heldAs returns the type that the backend is to hold an item's matrix in.
func (l *loader) heldAs(it item, t compute.RawTensor) compute.DType {
	if isQuantised(t.DType) {
		return t.DType
	}
	if to := l.quantizeTo(it, t.Cols); to != compute.F32 {
		return to
	}
	if isQuantised(l.dtype) {
		return t.DType
	}
	return l.dtype
}

// types names the types of matrices, those of most elements first. One with less than
// a hundredth of all, as routers of experts have, says nothing about the model.
func (h *held) types() string {
	var total int64
	for _, n := range h.elements {
		total += n
	}
	var list []compute.DType
	for d, n := range h.elements {
		if n >= total/100 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b compute.DType) int {
		return cmp.Or(cmp.Compare(h.elements[b], h.elements[a]), cmp.Compare(a, b))
	})
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.String()
	}
	return strings.Join(names, " and ")
}

// inScratch returns what add appends to the scratch memory: about size bytes.
func (l *loader) inScratch(size int, add func(dst []byte) []byte) []byte {
	begin := len(l.scratch)
	l.scratch = add(slices.Grow(l.scratch, size))
	return l.scratch[begin:]
}

// appendUnpaired appends data's rows in the order of half-split rotary embedding,
// given them in the order of hf.Tensor.PairedHeads.
func appendUnpaired(dst, data []byte, rows, heads int) []byte {
	rowBytes, perHead := len(data)/rows, rows/heads
	for head := range heads {
		for half := range 2 {
			for i := range perHead / 2 {
				row := head*perHead + 2*i + half
				dst = append(dst, data[row*rowBytes:][:rowBytes]...)
			}
		}
	}
	return dst
}

func (l *loader) report(n int64) {
	l.done += n
	if l.progress != nil {
		l.progress(l.done, l.total)
	}
}
