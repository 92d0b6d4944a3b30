package compute

import "github.com/troupe-llm/troupe/kernels/cpu/quant"

// Quant returns the block layout of a quantised type.
func (d DType) Quant() (t quant.Type, ok bool) {
	if d < Q8_0 || d > Q6_K {
		return 0, false
	}
	return [...]quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}[d-Q8_0], true
}

// RowBytes returns the bytes of a row of cols elements, which are whole blocks.
func (d DType) RowBytes(cols int) int {
	if t, ok := d.Quant(); ok {
		return t.RowBytes(cols)
	}
	return cols * d.Size()
}
