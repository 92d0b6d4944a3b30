package cpu

import kernels "github.com/troupe-llm/troupe/kernels/cpu"

// widest is the most columns that a product may have on any tier.
const widest = 12

// workspace is memory that one worker owns.
type workspace struct {
	gemm    kernels.Gemm
	qgemm   kernels.QGemm
	attend  kernels.Attend
	edge    [widest * kernels.TileRows]float32 // outputs of a tile that is not all used
	queries scratch                            // [head_dim, columns]
	scores  scratch                            // [columns, ScoreStride]
	copies  scratch                            // of pieces
	offsets []int64                            // of pieces of the cache
	units   spanUnits                          // of a cache of integers
	out     scratch                            // of parts
	rounded scratch                            // activations on their way to a panel
	parts   [2]partial
}

func (w *workspace) init(mem *arena) {
	w.queries.mem, w.scores.mem, w.copies.mem, w.out.mem = mem, mem, mem, mem
	w.rounded.mem = mem
}
