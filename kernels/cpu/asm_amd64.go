package cpu

// gemmAsm runs g on tier t and reports whether t has assembly.
func gemmAsm(g *Gemm, t Tier) bool {
	switch t {
	case AVX512:
		switch g.Format {
		case F32:
			gemmF32AVX512(g)
		case F16:
			gemmF16AVX512(g)
		case BF16:
			gemmBF16AVX512(g)
		}
	case AVX2:
		switch g.Format {
		case F32:
			gemmF32AVX2(g)
		case F16:
			gemmF16AVX2(g)
		case BF16:
			gemmBF16AVX2(g)
		}
	default:
		return false
	}
	return true
}

// packAsm packs as many whole rows as it can, from the first on, and returns
// how many.
func packAsm(t Tier, dst, src []float32, k, nr, ld int) int {
	if t == Generic || nr < 4 || k < 4 {
		return 0
	}
	quads := k / 4
	for j := 0; j < nr; j += 4 {
		j := min(j, nr-4) // the last four may overlap the ones before
		packFour(&dst[j], &src[j*ld], quads, ld*4, nr*4)
		for c := quads * 4; c < k; c++ {
			for i := j; i < j+4; i++ {
				dst[c*nr+i] = src[i*ld+c]
			}
		}
	}
	return nr
}

// The functions below treat as many whole groups of TileRows elements as there
// are and return how many elements that was.

func sumSquaresAsm(t Tier, x []float32, acc *lanes) int {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		sumSquaresAVX512(&x[0], groups, acc)
	case AVX2:
		sumSquaresAVX2(&x[0], groups, acc)
	default:
		return 0
	}
	return groups * TileRows
}

func scaleMulAsm(t Tier, dst, x, w []float32, scale float32) int {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		scaleMulAVX512(&dst[0], &x[0], &w[0], groups, scale)
	case AVX2:
		scaleMulAVX2(&dst[0], &x[0], &w[0], groups, scale)
	default:
		return 0
	}
	return groups * TileRows
}

func siluMulAsm(t Tier, dst, gate, up []float32) int {
	groups := len(gate) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		siluMulAVX512(&dst[0], &gate[0], &up[0], groups)
	case AVX2:
		siluMulAVX2(&dst[0], &gate[0], &up[0], groups)
	default:
		return 0
	}
	return groups * TileRows
}

// The two below treat all of x and report whether t has assembly.

func scaleMaxAsm(t Tier, x []float32, scale float32) (float32, bool) {
	var acc lanes
	switch t {
	case AVX512:
		scaleMaxAVX512(&x[0], len(x)/TileRows, scale, &acc)
	case AVX2:
		scaleMaxAVX2(&x[0], len(x)/TileRows, scale, &acc)
	default:
		return 0, false
	}
	m := acc[0]
	for _, v := range acc[1:] {
		m = max(m, v)
	}
	return m, true
}

func expSumAsm(t Tier, x []float32, shift float32, acc *lanes) bool {
	switch t {
	case AVX512:
		expSumAVX512(&x[0], len(x)/TileRows, shift, acc)
	case AVX2:
		expSumAVX2(&x[0], len(x)/TileRows, shift, acc)
	default:
		return false
	}
	return true
}
