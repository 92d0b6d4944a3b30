package cpu

// laneAsm and columnsAsm store as many whole groups of TileRows elements as there are
// and return how many elements that was.

func (s *Store) laneAsm(t Tier, v []float32) int {
	groups := len(v) / TileRows
	if groups == 0 || t == Generic {
		return 0
	}
	dst, stride := &s.Tiles[ElemOffset(s.Format, 0, s.At)], ElemOffset(s.Format, TileRows, 0)
	switch {
	case s.Format == F16 && t == AVX512:
		storeLaneF16AVX512(dst, &v[0], groups, stride)
	case s.Format == F16:
		storeLaneF16AVX2(dst, &v[0], groups, stride)
	case s.Format == I8 && t == AVX512:
		storeLaneI8AVX512(dst, &v[0], groups, stride, s.Inverse)
	case s.Format == I8:
		storeLaneI8AVX2(dst, &v[0], groups, stride, s.Inverse)
	default:
		return 0
	}
	return groups * TileRows
}

func (s *Store) columnsAsm(t Tier, v []float32) int {
	groups := len(v) / TileRows
	if groups == 0 || t == Generic {
		return 0
	}
	dst := &s.Tiles[ElemOffset(s.Format, s.At, 0)]
	switch {
	case s.Format == F16 && t == AVX512:
		storeColumnsF16AVX512(dst, &v[0], groups, s.TileBytes)
	case s.Format == F16:
		storeColumnsF16AVX2(dst, &v[0], groups, s.TileBytes)
	case s.Format == I8 && t == AVX512:
		storeColumnsI8AVX512(dst, &v[0], groups, s.TileBytes, s.Inverse)
	case s.Format == I8:
		storeColumnsI8AVX2(dst, &v[0], groups, s.TileBytes, s.Inverse)
	default:
		return 0
	}
	return groups * TileRows
}

// rotateAsm rotates whole groups of pairs and returns how many pairs that was.
func rotateAsm(t Tier, x, cos, sin []float32) int {
	groups := len(cos) / TileRows
	if groups == 0 {
		return 0
	}
	switch t {
	case AVX512:
		rotateAVX512(&x[0], &cos[0], &sin[0], groups, 4*len(cos))
	case AVX2:
		rotateAVX2(&x[0], &cos[0], &sin[0], groups, 4*len(cos))
	default:
		return 0
	}
	return groups * TileRows
}

// magnitudeAsm returns the largest pattern without sign of whole groups, and how many
// elements they are.
func magnitudeAsm(t Tier, x []float32) (largest uint32, n int) {
	groups := len(x) / TileRows
	if groups == 0 {
		return 0, 0
	}
	switch t {
	case AVX512:
		largest = magnitudeAVX512(&x[0], groups)
	case AVX2:
		largest = magnitudeAVX2(&x[0], groups)
	default:
		return 0, 0
	}
	return largest, groups * TileRows
}
