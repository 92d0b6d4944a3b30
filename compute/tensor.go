package compute

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// maxTileRows is the most rows that a backend pads a matrix's height to.
const maxTileRows = 16

// HeldAs returns the type that a matrix holds the tensor's elements in: its own, or
// Quantize where that applies.
func (t RawTensor) HeldAs() DType {
	_, done := t.DType.Quant()
	to, ok := t.Quantize.Quant()
	if ok && !done && t.Cols%to.Elements() == 0 {
		return t.Quantize
	}
	return t.DType
}

// Check verifies that the tensor's data is as long as its shape says.
func (t RawTensor) Check() error {
	if typ, ok := t.DType.Quant(); ok && t.Cols%typ.Elements() != 0 {
		return fmt.Errorf("compute: tensor %q has %d columns, which is no multiple of the %d in a block of %v", t.Name, t.Cols, typ.Elements(), typ)
	} else if !ok && t.DType > BF16 {
		return fmt.Errorf("compute: unknown element type %d of tensor %q", t.DType, t.Name)
	}
	if to, ok := t.Quantize.Quant(); t.Quantize != F32 && !(ok && to.CanMake()) {
		return fmt.Errorf("compute: tensor %q cannot be quantised to type %d", t.Name, t.Quantize)
	}
	if t.Rows <= 0 || t.Cols <= 0 {
		return fmt.Errorf("compute: tensor %q has shape [%d, %d]; both must be at least 1", t.Name, t.Rows, t.Cols)
	}
	if _, fits := Product(t.Cols, maxTileRows, 4); !fits {
		return fmt.Errorf("compute: tensor %q has too many columns: %d", t.Name, t.Cols)
	}
	want, ok := Product(t.Rows, t.DType.RowBytes(t.Cols))
	if !ok || want != int64(len(t.Data)) {
		return fmt.Errorf("compute: tensor %q of shape [%d, %d] and type %v has %d bytes of data", t.Name, t.Rows, t.Cols, t.DType, len(t.Data))
	}
	return nil
}

// CheckVector verifies that the tensor is a vector that is not quantised.
func (t RawTensor) CheckVector() error {
	if err := t.Check(); err != nil {
		return err
	}
	if typ, ok := t.DType.Quant(); ok {
		return fmt.Errorf("compute: tensor %q is a vector of quantised elements (%v), which is not supported", t.Name, typ)
	}
	if t.Rows != 1 {
		return fmt.Errorf("compute: tensor %q has %d rows; a vector has 1", t.Name, t.Rows)
	}
	return nil
}

// CheckParts verifies that tensors can be stacked by rows and returns the sum of
// their rows.
func CheckParts(parts []RawTensor) (rows int, err error) {
	if len(parts) == 0 {
		return 0, fmt.Errorf("compute: a matrix needs at least one part")
	}
	for _, p := range parts {
		if err := p.Check(); err != nil {
			return 0, err
		}
		if p.Cols != parts[0].Cols {
			return 0, fmt.Errorf("compute: tensor %q has %d columns and cannot be stacked on %q with %d",
				p.Name, p.Cols, parts[0].Name, parts[0].Cols)
		}
		if rows > math.MaxInt-maxTileRows-p.Rows {
			return 0, fmt.Errorf("compute: too many rows at tensor %q", p.Name)
		}
		rows += p.Rows
	}
	return rows, nil
}

// Widen sets dst to elements of a type that is not quantised.
func Widen(dst []float32, src []byte, d DType) {
	for i := range dst {
		switch d {
		case F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		case F16:
			dst[i] = half.ToFloat32(binary.LittleEndian.Uint16(src[2*i:]))
		case BF16:
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	}
}

// Product multiplies sizes; it is not ok if one is negative or the product exceeds 2^62.
func Product(factors ...int) (n int64, ok bool) {
	n = 1
	for _, f := range factors {
		if f < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(uint64(n), uint64(f))
		if hi != 0 || lo > 1<<62 {
			return 0, false
		}
		n = int64(lo)
	}
	return n, true
}
