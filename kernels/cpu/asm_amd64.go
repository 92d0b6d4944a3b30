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

// scoresAsm and valuesAsm run a on tier t and report whether t has assembly.
func scoresAsm(a *Attend, t Tier) bool {
	switch {
	case t == Generic:
		return false
	case t == AVX512 && a.Format == F32:
		scoresF32AVX512(a)
	case t == AVX512 && a.Format == F16:
		scoresF16AVX512(a)
	case t == AVX512 && a.Format == I8:
		scoresI8AVX512(a)
	case t == AVX512:
		scoresBF16AVX512(a)
	case a.Format == F32:
		scoresF32AVX2(a)
	case a.Format == F16:
		scoresF16AVX2(a)
	case a.Format == I8:
		scoresI8AVX2(a)
	default:
		scoresBF16AVX2(a)
	}
	return true
}

func valuesAsm(a *Attend, t Tier) bool {
	switch {
	case t == Generic:
		return false
	case t == AVX512 && a.Format == F32:
		valuesF32AVX512(a)
	case t == AVX512 && a.Format == F16:
		valuesF16AVX512(a)
	case t == AVX512 && a.Format == I8:
		valuesI8AVX512(a)
	case t == AVX512:
		valuesBF16AVX512(a)
	default:
		valuesThree(a)
	}
	return true
}

// valuesThree computes three queries at a time: the registers of AVX2 hold the
// chains of no more.
func valuesThree(a *Attend) {
	part := *a
	for j := 0; j < a.NR; j += 3 {
		part.NR, part.X, part.Out = min(a.NR-j, 3), a.X[j*ScoreStride:], a.Out[j*a.LDO:]
		switch a.Format {
		case F32:
			valuesF32AVX2(&part)
		case F16:
			valuesF16AVX2(&part)
		case BF16:
			valuesBF16AVX2(&part)
		case I8:
			valuesI8AVX2(&part)
		}
	}
}

// packAsm packs the columns up to a multiple of four and returns how many.
func packAsm(t Tier, dst, src []float32, k, nr, ld int) int {
	quads := k / 4
	if t == Generic || nr < 2 || quads == 0 {
		return 0
	}
	// The last rows of a kind may overlap the ones before: they write the same.
	if nr < 4 {
		for j := 0; j < nr; j += 2 {
			j := min(j, nr-2)
			packTwo(&dst[j], &src[j*ld], quads, ld*4, nr*4)
		}
		return quads * 4
	}
	for j := 0; j < nr; j += 4 {
		j := min(j, nr-4)
		packFour(&dst[j], &src[j*ld], quads, ld*4, nr*4)
	}
	return quads * 4
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

func scaleAsm(t Tier, dst, x []float32, scale float32) int {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		scaleAVX512(&dst[0], &x[0], groups, scale)
	case AVX2:
		scaleAVX2(&dst[0], &x[0], groups, scale)
	default:
		return 0
	}
	return groups * TileRows
}

func blendAsm(t Tier, dst, x []float32, a, b float32) int {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		blendAVX512(&dst[0], &x[0], groups, a, b)
	case AVX2:
		blendAVX2(&dst[0], &x[0], groups, a, b)
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

func geluMulAsm(t Tier, dst, gate, up []float32) int {
	groups := len(gate) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		geluMulAVX512(&dst[0], &gate[0], &up[0], groups)
	case AVX2:
		geluMulAVX2(&dst[0], &gate[0], &up[0], groups)
	default:
		return 0
	}
	return groups * TileRows
}

func softCapAsm(t Tier, x []float32, inner, outer, limit float32) int {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		softCapAVX512(&x[0], groups, inner, outer, limit)
	case AVX2:
		softCapAVX2(&x[0], groups, inner, outer, limit)
	default:
		return 0
	}
	return groups * TileRows
}

// The two below treat all of x and report whether t has assembly.

func softmaxAsm(t Tier, x []float32, stride, n int, scale float32, largest, total []float32) bool {
	rows, groups := len(largest), n/TileRows
	switch t {
	case AVX512:
		softmaxAVX512(&x[0], rows, groups, 4*stride, scale, &largest[0], &total[0])
	case AVX2:
		softmaxAVX2(&x[0], rows, groups, 4*stride, scale, &largest[0], &total[0])
	default:
		return false
	}
	return true
}

func exp2Asm(t Tier, x []float32) bool {
	switch t {
	case AVX512:
		exp2RowAVX512(&x[0], len(x)/TileRows)
	case AVX2:
		exp2RowAVX2(&x[0], len(x)/TileRows)
	default:
		return false
	}
	return true
}
