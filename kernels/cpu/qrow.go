package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// QRow is a row of activations, quantised: x[k] ≈ Scale[k/QBlock] * Q[k]. Its bits
// follow from the row alone.
type QRow struct {
	Q     []int8    // [cols], -127 to 127
	Scale []float32 // [cols/QBlock]
	Sums  []int32   // [cols/QBlock, 2]: of Q, over the first and the second half of a block
}

// smallest is below what a block is taken to be all zeros: the inverse of its
// scale might be infinite.
const smallest = 1e-30

// Quantize sets r to x, whose length is a multiple of [QBlock]. A block with a NaN
// or an infinity has a scale of NaN: so has what is computed of it.
func (r *QRow) Quantize(t Tier, x []float32) {
	blocks := len(x) / QBlock
	if len(x)%QBlock != 0 || len(r.Q) < len(x) || len(r.Scale) < blocks || len(r.Sums) < 2*blocks {
		panic(fmt.Sprintf("kernels/cpu: QRow of %d elements over %d, %d, %d", len(x), len(r.Q), len(r.Scale), len(r.Sums)))
	}
	if blocks > 0 && quantizeAsm(t, r, x, blocks) {
		return
	}
	for b := range blocks {
		q := r.Q[b*QBlock:][:QBlock]
		var sums [2]int32
		r.Scale[b], sums = quantizeBlock(q, x[b*QBlock:][:QBlock])
		r.Sums[2*b], r.Sums[2*b+1] = sums[0], sums[1]
	}
}

// quantizeBlock quantises one block.
func quantizeBlock(q []int8, x []float32) (scale float32, sums [2]int32) {
	largest := uint32(0) // bits: NaNs are above infinity, and that above all numbers
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&0x7fffffff)
	}
	top := math.Float32frombits(largest)
	switch {
	case largest >= 0x7f800000:
		clear(q)
		return float32(math.NaN()), sums
	case top < smallest:
		clear(q)
		return 0, sums
	}
	inverse := float32(127 / top)
	for i, v := range x {
		n := int32(math.RoundToEven(float64(float32(v * inverse))))
		q[i] = int8(n)
		sums[i/16] += n
	}
	return float32(top / 127), sums
}

// QSide returns the words per block and column that go with a panel for weights
// of type t: the scale, and what makes up for the offset or goes with the min.
func QSide(t quant.Type) int {
	if t.Group() == 16 {
		return 3
	}
	return 2
}

// QPanelWords returns the 32-bit words of a panel [cols, nr] for weights of type t.
func QPanelWords(t quant.Type, cols, nr int) int { return cols / QBlock * nr * (QBlock/4 + QSide(t)) }

// QPanelScratch returns the words of scratch memory that [PackQPanel] needs.
func QPanelScratch(cols, nr int) int { return nr*cols/4 + cols/QBlock*3 }

// PackQPanel quantises nr rows of cols elements, ld apart in src, and interleaves
// them to the panel of a [QGemm] with weights of type w.
func PackQPanel(t Tier, dst []float32, w quant.Type, src []float32, o QPanelShape) {
	cols, nr := o.Cols, o.NR
	if len(o.Scratch) < QPanelScratch(cols, nr) || len(dst) < QPanelWords(w, cols, nr) || len(src) < (nr-1)*o.LD+cols {
		panic(fmt.Sprintf("kernels/cpu: PackQPanel %d x %d over %d, %d, %d", cols, nr, len(dst), len(src), len(o.Scratch)))
	}
	blocks, words := cols/QBlock, o.Scratch[:nr*cols/4]
	if nr == 1 {
		words = dst[:cols/4]
	}
	rest := o.Scratch[nr*cols/4:]
	r := QRow{Scale: rest[:blocks:blocks], Sums: view[int32](rest[blocks:][:2*blocks])}
	for j := range nr {
		r.Q = view[int8](words[j*cols/4:][:cols/4])
		r.Quantize(t, src[j*o.LD:][:cols])
		r.PackSide(dst[cols/4*nr:], w, j, nr)
	}
	if nr > 1 {
		PackPanel(t, dst, words, cols/4, nr, cols/4)
	}
}

// QPanelShape is the shape of a panel, and memory to make it with.
type QPanelShape struct {
	Cols, NR int
	LD       int       // distance of source rows, in elements
	Scratch  []float32 // QPanelScratch words
}

// view views words as elements of another type.
func view[T int8 | int32](words []float32) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4/int(unsafe.Sizeof(one)))
}

// PackSide writes what goes with column j of a panel of nr columns: side is
// [blocks][QSide][nr] words.
func (r *QRow) PackSide(side []float32, t quant.Type, j, nr int) {
	n := QSide(t)
	offset := int32(t.Offset())
	for b, scale := range r.Scale {
		at := side[b*n*nr+j:]
		low, high := r.Sums[2*b], r.Sums[2*b+1]
		at[0] = scale
		switch {
		case t.HasMin():
			at[nr] = -float32(scale * float32(low+high))
		case n == 3:
			at[nr], at[2*nr] = startBits(-offset*low), startBits(-offset*high)
		default:
			at[nr] = startBits(-offset * (low + high))
		}
	}
}

// startBits is the word that a sum of integers starts from.
func startBits(n int32) float32 { return math.Float32frombits(uint32(magicBits + n)) }
