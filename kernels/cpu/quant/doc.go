// Package quant knows the block layouts of quantised weights that ggml has
// published, and is the reference for what their bits mean.
//
// A row of a weight is cut into blocks of 32 or 256 elements. A block holds small
// unsigned integers q and what turns them back into numbers; every type is a case
// of
//
//	x = d*scale*(q - offset) - dmin*min
//
// with a scale and perhaps a min for every 16 or 32 elements. [Type.Unpack] takes
// a block apart into exactly these numbers, [Type.Dequantize] evaluates them, and
// [Type.Append] makes blocks of numbers for the types that can be made at load.
//
// Layouts: ggml's ggml-common.h and ggml-quants.c, as described in
// https://github.com/ggml-org/ggml.
package quant
