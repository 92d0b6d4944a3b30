package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

const (
	// maxHeaderBytes is the limit of the reference implementation.
	maxHeaderBytes = 100_000_000
	maxDims        = 8
	prefixBytes    = 8
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	DType string // the format's name: F32, F16, BF16, I64, …
	Shape []int  // empty for a scalar
	Data  []byte // row-major little-endian; a view into the parsed bytes, to be read only
}

// NumElements returns the product of the shape.
func (t *Tensor) NumElements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d // Parse has ruled out an overflow
	}
	return n
}

// File is a parsed file. Its tensors are valid as long as the parsed bytes.
type File struct {
	tensors []Tensor
	byName  map[string]int
}

// Tensors returns all tensors in the header's order.
func (f *File) Tensors() []Tensor { return f.tensors }

// Lookup returns the tensor of that name.
func (f *File) Lookup(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Parse reads the header of a whole file's bytes. name is the file's name for
// errors, which are *infer.Error with CodeInvalid.
func Parse(name string, data []byte) (*File, error) {
	header, body, err := split(name, data)
	if err != nil {
		return nil, err
	}
	p := parser{name: name, body: body, file: &File{byName: map[string]int{}}}
	if err := p.header(header); err != nil {
		return nil, err
	}
	if err := p.layout(); err != nil {
		return nil, err
	}
	return p.file, nil
}

// split cuts data into header and body, having checked the header's length.
func split(name string, data []byte) (header, body []byte, err error) {
	if len(data) < prefixBytes {
		if what := sniff(data); what != "" {
			return nil, nil, fault(name, "%s", what)
		}
		return nil, nil, fault(name, "the file has %d bytes, too few for a safetensors file: download it again", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	switch {
	case n > maxHeaderBytes:
		if what := sniff(data); what != "" {
			return nil, nil, fault(name, "%s", what)
		}
		return nil, nil, fault(name, "not a safetensors file: its first eight bytes claim a header of %d bytes, the limit is %d", n, maxHeaderBytes)
	case n > uint64(len(data)-prefixBytes):
		return nil, nil, fault(name, "the file ends inside its header: %d bytes claimed, %d there; it is truncated (download it again) or not a safetensors file", n, len(data)-prefixBytes)
	case n < 2 || data[prefixBytes] != '{':
		return nil, nil, fault(name, "not a safetensors file: no JSON header after the first eight bytes")
	}
	return data[prefixBytes : prefixBytes+n], data[prefixBytes+n:], nil
}

// parser builds a File from a header.
type parser struct {
	name string
	body []byte
	file *File
	ends []span // parallel to file.tensors
}

// span is a tensor's byte range in the body.
type span struct{ begin, end int }

// entry is one tensor's value in the header.
type entry struct {
	DType   *string `json:"dtype"`
	Shape   ints    `json:"shape"`
	Offsets ints    `json:"data_offsets"`
}

// ints is a short list of non-negative integers. Its length is checked on the
// text, before anything is allocated for it.
type ints []int64

// UnmarshalJSON implements json.Unmarshaler.
func (v *ints) UnmarshalJSON(b []byte) error {
	if bytes.Count(b, []byte{','}) >= maxDims {
		return fmt.Errorf("more than %d numbers in a list", maxDims)
	}
	list := []int64{}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, n := range list {
		if n < 0 {
			return fmt.Errorf("negative number %d", n)
		}
	}
	*v = list
	return nil
}

func (p *parser) header(header []byte) error {
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.DisallowUnknownFields()
	if _, err := dec.Token(); err != nil {
		return fault(p.name, "the header is not valid JSON: %v", err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return fault(p.name, "the header is not valid JSON: %v", err)
		}
		tensor := key.(string) // the decoder gives nothing else for a key
		if tensor == "__metadata__" {
			var metadata map[string]string
			if err := dec.Decode(&metadata); err != nil {
				return fault(p.name, "the header's __metadata__ is not a map of strings: %v", err)
			}
			continue
		}
		var e entry
		if err := dec.Decode(&e); err != nil {
			return fault(p.name, "the header's entry of tensor %q is broken: %v", tensor, err)
		}
		if err := p.add(tensor, e); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fault(p.name, "the header is not valid JSON: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault(p.name, "the header goes on after its JSON object")
	}
	return nil
}

// add checks one entry and takes its tensor.
func (p *parser) add(name string, e entry) error {
	if _, ok := p.file.byName[name]; ok {
		return fault(p.name, "tensor %q is listed twice in the header", name)
	}
	if e.DType == nil || e.Shape == nil || len(e.Offsets) != 2 {
		return fault(p.name, "the header's entry of tensor %q needs dtype, shape and two data_offsets", name)
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin > end {
		return fault(p.name, "tensor %q: data_offsets [%d, %d] run backwards", name, begin, end)
	}
	if end > int64(len(p.body)) {
		return fault(p.name, "tensor %q ends at byte %d of the data, but the file has only %d: it is truncated (download it again)", name, end, len(p.body))
	}
	t := Tensor{Name: name, DType: *e.DType, Shape: make([]int, len(e.Shape)), Data: p.body[begin:end:end]}
	elements := int64(1)
	for i, d := range e.Shape {
		if d != 0 && elements > math.MaxInt32*int64(math.MaxInt16)/d {
			return fault(p.name, "tensor %q: shape %v is absurdly large", name, e.Shape)
		}
		elements *= d
		t.Shape[i] = int(d)
	}
	if size, known := elementBytes[*e.DType]; known && elements*size != end-begin {
		return fault(p.name, "tensor %q: %s %v takes %d bytes, but its data_offsets [%d, %d] hold %d", name, *e.DType, e.Shape, elements*size, begin, end, end-begin)
	}
	p.file.byName[name] = len(p.file.tensors)
	p.file.tensors = append(p.file.tensors, t)
	p.ends = append(p.ends, span{int(begin), int(end)})
	return nil
}

// layout checks that the tensors tile the body: no overlap and, as the format
// demands, no gap in which something else could hide.
func (p *parser) layout() error {
	order := make([]int, len(p.ends))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.ends[a].begin, p.ends[b].begin), cmp.Compare(p.ends[a].end, p.ends[b].end))
	})
	at, previous := 0, ""
	for _, i := range order {
		s, name := p.ends[i], p.file.tensors[i].Name
		if s.begin < at {
			return fault(p.name, "tensors %q and %q overlap in the file: one ends at byte %d of the data, the other begins at %d", previous, name, at, s.begin)
		}
		if s.begin > at {
			return fault(p.name, "bytes %d to %d of the data belong to no tensor", at, s.begin)
		}
		at, previous = s.end, name
	}
	if at != len(p.body) {
		return fault(p.name, "the data has %d bytes, but its tensors take only %d", len(p.body), at)
	}
	return nil
}

// elementBytes holds the element types whose sizes are whole bytes; of others
// only the bounds are checked.
var elementBytes = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4,
	"U64": 8, "I64": 8, "F64": 8,
}

func fault(name, format string, args ...any) error {
	return infer.Errorf(infer.CodeInvalid, name, "%s: "+format, append([]any{name}, args...)...)
}
