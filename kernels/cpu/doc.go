// Package cpu holds the arithmetic of the CPU backend: matrix products over
// packed weights, and the row operations of a decoder. Each kernel exists as
// pure Go and, where the processor has AVX2 or AVX-512, as assembly written by
// the generator in asmgen.
//
// # One order of operations
//
// Every kernel fixes the order of its floating-point operations by the shape of
// one row alone, and every tier (see [Tier]) follows that order with the same
// roundings. So a result has the same bits whichever tier computed it, however
// many rows were computed together, and however the work was split:
//
//   - [Gemm]: out[j][r] is one chain of fused multiply-adds over k = 0, 1, 2, …
//   - [QGemm]: sums of integers are exact, so their order is free; what they add to
//     out[j][r] is one chain of fused multiply-adds over the blocks of columns.
//   - [Attend]: a score is one such chain, a weighted sum of values two.
//   - sums over a row ([SumSquares], [Softmax]): sixteen partial sums, element i
//     into sum i mod 16, then added pairwise in a fixed tree.
//   - exponentials: one polynomial for e^x and one for 2^x, with fused multiply-adds.
//
// NaNs propagate through every kernel; their payload bits are not defined.
//
// # Packed weights
//
// A weight [rows, cols] is stored in tiles of [TileRows] rows. A tile holds its
// columns in order, and for each column the rows' values side by side, one
// vector lane per row; rows past the end are zero. BF16 tiles hold two columns
// side by side in each lane, the even one in the low half, because one shift or
// one mask then widens sixteen values. See [ElemOffset]. Tiles of quantised
// weights are described with [QTileBytes].
//
// No kernel allocates. Arguments are checked once per call; a wrong shape is a
// broken invariant and panics.
package cpu

//go:generate go run ./asmgen
