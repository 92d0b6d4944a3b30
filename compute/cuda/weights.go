package cuda

import (
	"fmt"
	"runtime/debug"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// matrix is a weight: bands of rows below each other.
type matrix struct {
	rows, cols int
	bands      []*band
}

// Rows implements compute.Matrix.
func (m *matrix) Rows() int { return m.rows }

// Cols implements compute.Matrix.
func (m *matrix) Cols() int { return m.cols }

// units is how many units a row is cut into.
func (m *matrix) units() int { return ceil(m.cols, unitCols) }

// band is rows of a matrix that are held in one type, as kernels/cuda/src/weights.h describes.
type band struct {
	dtype       compute.DType // F32, F16, BF16, Q8_0 or Q4_0
	first, rows int           // rows of the matrix
	data        Ptr           // [units of 16 rows][units of 32 columns]
	scales      Ptr           // f16, of a quantised type: [units of 16 rows][units of 32 columns][16]
}

// weightKernels are the kernels of an element type.
type weightKernels struct {
	narrow1, narrow4 kernels.NarrowKernel
	wide             kernels.WideKernel
	embed            kernels.EmbedKernel
	unitBytes        int // of a unit's elements
}

var weightKernelsOf = map[compute.DType]*weightKernels{
	compute.F32:  {kernels.KernelNarrow1F32, kernels.KernelNarrow4F32, kernels.KernelWideF32, kernels.KernelEmbedF32, 2048},
	compute.F16:  {kernels.KernelNarrow1F16, kernels.KernelNarrow4F16, kernels.KernelWideF16, kernels.KernelEmbedF16, 1024},
	compute.BF16: {kernels.KernelNarrow1Bf16, kernels.KernelNarrow4Bf16, kernels.KernelWideBf16, kernels.KernelEmbedBf16, 1024},
	compute.Q8_0: {kernels.KernelNarrow1Q80, kernels.KernelNarrow4Q80, kernels.KernelWideQ80, kernels.KernelEmbedQ80, 512},
	compute.Q4_0: {kernels.KernelNarrow1Q40, kernels.KernelNarrow4Q40, kernels.KernelWideQ40, kernels.KernelEmbedQ40, 256},
}

func (w *band) kernels() *weightKernels { return weightKernelsOf[w.dtype] }

// residentType is the type that the device holds a tensor in. Blocks of 256 have no kernels:
// their elements are F32 there, which rounds nothing but takes more memory.
func residentType(t compute.RawTensor) compute.DType {
	held := t.HeldAs()
	if _, ok := weightKernelsOf[held]; ok {
		return held
	}
	return compute.F32
}

// NewMatrix implements compute.Backend.
func (b *Backend) NewMatrix(parts ...compute.RawTensor) (compute.Matrix, error) {
	rows, err := compute.CheckParts(parts)
	if err != nil {
		return nil, err
	}
	m := &matrix{rows: rows, cols: parts[0].Cols}
	for first := 0; len(parts) > 0; {
		n := 1
		for n < len(parts) && residentType(parts[n]) == residentType(parts[0]) {
			n++
		}
		w, err := b.newBand(parts[:n], first)
		if err != nil {
			return nil, err // what was made before is freed with the backend, which is of no use now
		}
		m.bands = append(m.bands, w)
		first += w.rows
		parts = parts[n:]
	}
	for {
		most := b.shared.maxCols.Load()
		if int64(m.cols) <= most || b.shared.maxCols.CompareAndSwap(most, int64(m.cols)) {
			return m, nil
		}
	}
}

// newBand brings parts to the device that are held in one type there.
func (b *Backend) newBand(parts []compute.RawTensor, first int) (*band, error) {
	w := &band{dtype: residentType(parts[0]), first: first}
	for _, p := range parts {
		w.rows += p.Rows
	}
	groups, units := ceil(w.rows, unitRows), ceil(parts[0].Cols, unitCols)
	size, ok := compute.Product(groups, units, w.kernels().unitBytes)
	if !ok {
		return nil, fmt.Errorf("compute/cuda: tensor %q is too large: [%d, %d]", parts[0].Name, w.rows, parts[0].Cols)
	}
	var err error
	if w.data, err = b.shared.weights.alloc(size, "weight "+parts[0].Name); err != nil {
		return nil, err
	}
	if _, quantised := w.dtype.Quant(); quantised {
		if w.scales, err = b.shared.weights.alloc(int64(groups)*int64(units)*2*unitRows, "weight "+parts[0].Name); err != nil {
			return nil, err
		}
	}
	err = guardRead(parts[0].Name, func() { b.pack(w, parts) })
	if err == nil {
		err = b.Sync()
	}
	return w, err
}

// guardRead calls read, which reads weights. They are usually pages of a file; if those
// cannot be read, because the disk fails or the file was cut short, that is an error and
// no reason to die.
func guardRead(name string, read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("compute/cuda: cannot read tensor %q: %v", name, v)
		}
	}()
	read()
	return nil
}

// vectorOf is a one-dimensional weight.
type vectorOf struct {
	p Ptr
	n int
}

// Len implements compute.Vector.
func (v *vectorOf) Len() int { return v.n }

// NewVector implements compute.Backend.
func (b *Backend) NewVector(t compute.RawTensor) (compute.Vector, error) {
	if err := t.CheckVector(); err != nil {
		return nil, err
	}
	values := make([]float32, t.Cols)
	if err := guardRead(t.Name, func() { compute.Widen(values, t.Data, t.DType) }); err != nil {
		return nil, err
	}
	p, err := b.shared.weights.alloc(int64(4*t.Cols), "vector "+t.Name)
	if err != nil {
		return nil, err
	}
	write(b, p, values)
	return &vectorOf{p: p, n: t.Cols}, b.Sync()
}
