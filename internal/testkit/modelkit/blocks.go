package modelkit

import (
	"encoding/binary"
	"math"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// quantTypes are the types of blocks by ggml's names.
var quantTypes = map[string]quant.Type{
	"Q8_0": quant.Q8_0, "Q4_0": quant.Q4_0, "Q4_K": quant.Q4_K, "Q5_K": quant.Q5_K, "Q6_K": quant.Q6_K,
}

// appendBlocks quantises values. The types with two levels of scales are made in
// the plainest way, which is worse than that of llama.cpp.
func appendBlocks(b []byte, t quant.Type, values []float32) []byte {
	if t.CanMake() {
		return t.Append(b, values)
	}
	for ; len(values) > 0; values = values[quant.MaxElements:] {
		if block := values[:quant.MaxElements]; t == quant.Q6_K {
			b = appendQ6K(b, block)
		} else {
			b = appendQ45K(b, t, block)
		}
	}
	return b
}

func appendHalf(b []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint16(b, half.FromFloat32(v))
}

// round returns the nearest integer in [0, highest] to v/step.
func round(v, step float32, highest int) int {
	if step == 0 {
		return 0
	}
	return min(max(int(math.Round(float64(v/step))), 0), highest)
}

// appendQ45K makes a block of Q4_K or Q5_K: groups of 32 between a low and a high
// end, in steps of their own.
func appendQ45K(b []byte, t quant.Type, x []float32) []byte {
	levels := 15
	if t == quant.Q5_K {
		levels = 31
	}
	var steps, lows [8]float32
	var d, dmin float32
	for g := range 8 {
		low, high := float32(0), float32(0)
		for _, v := range x[32*g:][:32] {
			low, high = min(low, v), max(high, v)
		}
		steps[g], lows[g] = (high-low)/float32(levels), -low
		d, dmin = max(d, steps[g]/63), max(dmin, lows[g]/63)
	}
	b = appendHalf(appendHalf(b, d), dmin)
	d, dmin = half.ToFloat32(half.FromFloat32(d)), half.ToFloat32(half.FromFloat32(dmin))
	var packed [12]byte
	var high [32]byte
	var low [128]byte
	for g := range 8 {
		scale, least := round(steps[g], d, 63), round(lows[g], dmin, 63)
		if g < 4 {
			packed[g] |= byte(scale)
			packed[g+4] |= byte(least)
		} else {
			packed[g+4] |= byte(scale&15 | least&15<<4)
			packed[g-4] |= byte(scale >> 4 << 6)
			packed[g] |= byte(least >> 4 << 6)
		}
		for i, v := range x[32*g:][:32] {
			q := round(v+dmin*float32(least), d*float32(scale), levels)
			low[g/2*32+i] |= byte(q & 15 << (g % 2 * 4))
			high[i] |= byte(q >> 4 << g)
		}
	}
	b = append(b, packed[:]...)
	if t == quant.Q5_K {
		b = append(b, high[:]...)
	}
	return append(b, low[:]...)
}

// appendQ6K makes a block of Q6_K: groups of 16 in steps of their own around 0.
func appendQ6K(b []byte, x []float32) []byte {
	var steps [16]float32
	largest := float32(0)
	for g := range steps {
		for _, v := range x[16*g:][:16] {
			steps[g] = max(steps[g], float32(math.Abs(float64(v)))/31)
		}
		largest = max(largest, steps[g])
	}
	d := half.ToFloat32(half.FromFloat32(largest / 127))
	var low [128]byte
	var high [64]byte
	var scales [16]byte
	for g := range steps {
		scale := round(steps[g], d, 127)
		scales[g] = byte(scale)
		for i, v := range x[16*g:][:16] {
			step := d * float32(scale)
			q := round(v+32*step, step, 63)
			at := 16*g + i
			half, quarter, k := at/128, at%128/32, at%32
			low[64*half+quarter%2*32+k] |= byte(q & 15 << (quarter / 2 * 4))
			high[32*half+k] |= byte(q >> 4 << (2 * quarter))
		}
	}
	b = append(append(append(b, low[:]...), high[:]...), scales[:]...)
	return appendHalf(b, d)
}

// Dequantised returns a copy whose quantised tensors are in F32.
func (g *GGUF) Dequantised() *GGUF {
	c := *g
	c.Tensors = append([]GGUFTensor{}, g.Tensors...)
	for i := range c.Tensors {
		t := &c.Tensors[i]
		for name, q := range quantTypes {
			if t.Type != ggmlTypes[name] {
				continue
			}
			values := make([]float32, len(t.Data)/q.Bytes()*q.Elements())
			q.Dequantize(values, t.Data)
			t.Type, t.Data = ggmlTypes["F32"], nil
			for _, v := range values {
				t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
			}
			break
		}
	}
	return &c
}
