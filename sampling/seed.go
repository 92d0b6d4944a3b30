package sampling

import "math"

// golden is the odd increment of SplitMix64: 2^64 / golden ratio.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64, a bijection of 64-bit words with mix(0) = 0.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
// (OOPSLA 2014); constants of David Stafford's variant 13.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// DeriveSeed returns the seed of one choice of a request: choice 0 keeps seed
// itself, and no two choices get the same.
func DeriveSeed(seed uint64, choice int) uint64 { return seed ^ mix(uint64(choice)) }

// DrawSeed returns number n, from 0, of the seeds that follow from seed. They are
// unrelated to each other, and no two are the same.
func DrawSeed(seed, n uint64) uint64 { return mix(seed + golden*n) }

// stream is the SplitMix64 generator of one draw. Number i of the stream is
// computed from i alone, so that tokens can be visited in any order.
type stream uint64

// newStream returns the stream of output position pos under seed.
func newStream(seed uint64, pos int) stream {
	return stream(mix(seed + golden*mix(uint64(pos)+golden)))
}

// uniform returns number i as a float in (0, 1), a multiple of 2^-53 that is
// never 0 or 1.
func (s stream) uniform(i int32) float64 {
	h := mix(uint64(s) + golden*(uint64(uint32(i))+1))
	return (float64(h>>12) + 0.5) * 0x1p-52
}

// gumbel maps a uniform number to the standard Gumbel distribution.
func gumbel(u float64) float64 { return -math.Log(-math.Log(u)) }
