package cpu

import "github.com/troupe-llm/troupe/kernels/cpu/quant"

// qgemmAsm runs g on tier t and reports whether t has assembly.
func qgemmAsm(g *QGemm, t Tier) bool {
	switch {
	case t == AVX512 && hasVNNI:
		qgemmAVX512(g)
	case t != Generic && hasAVXVNNI:
		qgemmAVXVNNI(g)
	case t == AVX512 || t == AVX2:
		qgemmAVX2(g)
	default:
		return false
	}
	return true
}

func qgemmAVX512(g *QGemm) {
	switch g.Type {
	case quant.Q8_0:
		qgemmQ8AVX512(g)
	case quant.Q4_0:
		qgemmQ4AVX512(g)
	case quant.Q4_K:
		qgemmQ4KAVX512(g)
	case quant.Q5_K:
		qgemmQ5KAVX512(g)
	case quant.Q6_K:
		qgemmQ6KAVX512(g)
	}
}

func qgemmAVXVNNI(g *QGemm) {
	switch g.Type {
	case quant.Q8_0:
		qgemmQ8AVXVNNI(g)
	case quant.Q4_0:
		qgemmQ4AVXVNNI(g)
	case quant.Q4_K:
		qgemmQ4KAVXVNNI(g)
	case quant.Q5_K:
		qgemmQ5KAVXVNNI(g)
	case quant.Q6_K:
		qgemmQ6KAVXVNNI(g)
	}
}

func qgemmAVX2(g *QGemm) {
	switch g.Type {
	case quant.Q8_0:
		qgemmQ8AVX2(g)
	case quant.Q4_0:
		qgemmQ4AVX2(g)
	case quant.Q4_K:
		qgemmQ4KAVX2(g)
	case quant.Q5_K:
		qgemmQ5KAVX2(g)
	case quant.Q6_K:
		qgemmQ6KAVX2(g)
	}
}

// quantizeAsm quantises blocks blocks of x and reports whether t has assembly.
func quantizeAsm(t Tier, r *QRow, x []float32, blocks int) bool {
	if t == Generic {
		return false
	}
	quantizeBlocks(&r.Q[0], &r.Scale[0], &r.Sums[0], &x[0], blocks)
	return true
}
