package ref

import "math"

// Embed returns rows ids of table [vocab, cols]: [len(ids), cols].
func Embed(table []float64, cols int, ids []int32) []float64 {
	out := make([]float64, 0, len(ids)*cols)
	for _, id := range ids {
		out = append(out, table[int(id)*cols:][:cols]...)
	}
	return out
}

// Gather returns rows of src [n, cols]: [len(rows), cols].
func Gather(src []float64, cols int, rows []int32) []float64 { return Embed(src, cols, rows) }

// RMSNorm returns x / sqrt(mean(x²) + eps) * w for each row of x [n, len(w)].
func RMSNorm(x, w []float64, eps float64) []float64 {
	cols := len(w)
	out := make([]float64, len(x))
	for start := 0; start < len(x); start += cols {
		sum := 0.0
		for c := range cols {
			sum += x[start+c] * x[start+c]
		}
		rms := math.Sqrt(sum/float64(cols) + eps)
		for c := range cols {
			out[start+c] = x[start+c] / rms * w[c]
		}
	}
	return out
}

// Linear returns x · wᵀ [n, rows] of x [n, cols] and w [rows, cols].
func Linear(x, w []float64, cols int) []float64 {
	n, rows := len(x)/cols, len(w)/cols
	out := make([]float64, n*rows)
	for i := range n {
		for r := range rows {
			sum := 0.0
			for c := range cols {
				sum += x[i*cols+c] * w[r*cols+c]
			}
			out[i*rows+r] = sum
		}
	}
	return out
}

// LinearAdd returns dst + x · wᵀ.
func LinearAdd(dst, x, w []float64, cols int) []float64 {
	out := Linear(x, w, cols)
	for i := range out {
		out[i] += dst[i]
	}
	return out
}

// RMSNormAdd returns dst + x / rms(x) * w.
func RMSNormAdd(dst, x, w []float64, eps float64) []float64 {
	out := RMSNorm(x, w, eps)
	for i := range out {
		out[i] += dst[i]
	}
	return out
}

// HeadNorm returns rows of s.Row() elements with RMSNorm applied to each query, by
// the weight query, and to each key, by key; values stay.
func HeadNorm(rows []float64, s Shape, query, key []float64, eps float64) []float64 {
	out := append([]float64(nil), rows...)
	for start := 0; start < len(out); start += s.Row() {
		for h := range s.NumHeads + s.NumKVHeads {
			w := query
			if h >= s.NumHeads {
				w = key
			}
			head := out[start+h*s.HeadDim:][:s.HeadDim]
			copy(head, RMSNorm(head, w, eps))
		}
	}
	return out
}

// AddBias returns x [n, len(bias)] with bias added to each row.
func AddBias(x, bias []float64) []float64 {
	out := append([]float64(nil), x...)
	for i := range out {
		out[i] += bias[i%len(bias)]
	}
	return out
}

// Scale returns x * factor.
func Scale(x []float64, factor float64) []float64 {
	out := append([]float64(nil), x...)
	for i := range out {
		out[i] *= factor
	}
	return out
}

// SoftCap returns limit * tanh(x/limit).
func SoftCap(x []float64, limit float64) []float64 {
	out := append([]float64(nil), x...)
	for i := range out {
		out[i] = limit * math.Tanh(out[i]/limit)
	}
	return out
}

// SiluMul returns silu(gate) * up [n, cols] of rows [n, 2*cols] that hold gate,
// then up; silu(x) = x / (1 + exp(-x)).
func SiluMul(gateUp []float64, cols int) []float64 {
	out := make([]float64, len(gateUp)/2)
	for i := range out {
		row := gateUp[i/cols*2*cols:]
		gate, up := row[i%cols], row[cols+i%cols]
		out[i] = gate / (1 + math.Exp(-gate)) * up
	}
	return out
}

// GeluMul returns gelu(gate) * up [n, cols] of rows [n, 2*cols] that hold gate,
// then up; gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))).
func GeluMul(gateUp []float64, cols int) []float64 {
	out := make([]float64, len(gateUp)/2)
	for i := range out {
		row := gateUp[i/cols*2*cols:]
		gate, up := row[i%cols], row[cols+i%cols]
		inner := math.Sqrt(2/math.Pi) * (gate + 0.044715*gate*gate*gate)
		out[i] = gate / 2 * (1 + math.Tanh(inner)) * up
	}
	return out
}
