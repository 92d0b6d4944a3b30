package cpu

// Tier is an instruction set for which kernels exist. The zero value is not a
// tier.
type Tier uint8

// The tiers, slowest first.
const (
	Generic Tier = iota + 1 // pure Go
	AVX2                    // AVX2, FMA and F16C
	AVX512                  // AVX-512 F, BW, DQ and VL
)

// String names the tier for people.
func (t Tier) String() string {
	switch t {
	case Generic:
		return "generic"
	case AVX2:
		return "AVX2"
	case AVX512:
		return "AVX-512"
	}
	return "no tier"
}

// maxCols is the most columns that a [Gemm] may have on any tier.
const maxCols = 12

// MaxCols returns how many columns a [Gemm] of this tier may have.
func (t Tier) MaxCols() int {
	if t == AVX2 {
		return 6 // sixteen registers: two per column and lane group
	}
	return maxCols
}

// Tiers lists the tiers that this processor can run, slowest first.
func Tiers() []Tier { return available }

// Best returns the fastest tier that this processor can run.
func Best() Tier { return available[len(available)-1] }

// maxQCols is the most columns that a [QGemm] may have on any tier.
const maxQCols = 8

// MaxQCols returns how many columns a [QGemm] of this tier may have.
func (t Tier) MaxQCols() int {
	if t == AVX2 || t == AVX512 && !hasVNNI {
		return 2 // sixteen registers: four per column, for sums of integers and of floats
	}
	return maxQCols
}
