package hf

import (
	"encoding/binary"
	"math"

	"github.com/troupe-llm/troupe/model/gguf"
)

// The parameters of Llama 3's frequency scaling that all its models share. A file
// has the factors that follow from them, and not the parameters themselves.
const (
	lowFreqFactor   = 1
	highFreqFactor  = 4
	originalContext = 8192
)

// llama3 returns the rope_scaling that gives the factors of t, which the
// converter of llama.cpp writes for the scaling of Llama 3 alone.
func llama3(m *meta, t gguf.Tensor) map[string]any {
	factors, largest := floats(m, t), 1.0
	for _, f := range factors {
		largest = max(largest, f)
	}
	theta := m.float(m.text("general.architecture", "")+".rope.freq_base", 10000)
	for i, have := range factors {
		want := llama3Factor(math.Pow(theta, -float64(i)/float64(len(factors))), largest)
		if !(math.Abs(have-want) <= 1e-4*want) {
			m.failTensor(t.Name, "does not hold the factors of Llama 3's rope scaling (element %d is %g, expected %g): others are not supported", i, have, want)
		}
	}
	return map[string]any{
		"rope_type": "llama3", "factor": largest, "low_freq_factor": lowFreqFactor,
		"high_freq_factor": highFreqFactor, "original_max_position_embeddings": originalContext,
	}
}

// longrope returns the rope_scaling of tensors of short and long factors.
func longrope(m *meta, prefix string, long gguf.Tensor) map[string]any {
	short, ok := m.file.Tensor(shortFactors)
	if !ok {
		m.failTensor(shortFactors, "is missing, but there is %q", longFactors)
	}
	s := map[string]any{
		"rope_type": "longrope", "short_factor": floats(m, short), "long_factor": floats(m, long),
		"original_max_position_embeddings": m.requiredInt(prefix + "rope.scaling.original_context_length"),
	}
	if factor := m.float(prefix+"rope.scaling.attn_factor", 0); factor != 0 {
		s["attention_factor"] = factor
	}
	return s
}

// maxFactors bounds the rotated pairs of a head.
const maxFactors = 1 << 12

// floats returns the elements of a vector of F32.
func floats(m *meta, t gguf.Tensor) []float64 {
	if t.Type != gguf.F32 || len(t.Shape) != 1 || t.Shape[0] > maxFactors {
		m.failTensor(t.Name, "has type %v and shape %d; expected a vector of F32 of at most %d elements", t.Type, t.Shape, maxFactors)
	}
	if m.err != nil {
		return nil
	}
	out := make([]float64, len(t.Data)/4)
	for i := range out {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
		if v-v != 0 { // JSON knows neither NaN nor infinities
			m.failTensor(t.Name, "holds %g at %d", v, i)
			return nil
		}
		out[i] = v
	}
	return out
}

// llama3Factor is what a frequency in radians per position is divided by.
func llama3Factor(frequency, factor float64) float64 {
	turns := originalContext * frequency / (2 * math.Pi)
	switch {
	case turns < lowFreqFactor:
		return factor
	case turns > highFreqFactor:
		return 1
	}
	smooth := (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor)
	return 1 / ((1-smooth)/factor + smooth)
}
