package metrics

import "math/bits"

// Gaps is a histogram of the times between two steps of a sequence. Its size is fixed:
// each octave from about a microsecond to some eighteen minutes has eight buckets. It
// belongs to one goroutine.
type Gaps struct {
	num    int
	max    int64
	counts [numGapBuckets]uint32
}

const (
	gapBits       = 3  // an octave has two to that power buckets
	minGapLog     = 10 // shorter gaps share the first bucket
	maxGapLog     = 40 // longer ones share the last
	numGapBuckets = (maxGapLog-minGapLog)<<gapBits + 2
)

// Observe counts a gap in nanoseconds.
func (g *Gaps) Observe(ns int64) {
	g.num++
	g.max = max(g.max, ns)
	g.counts[gapBucket(ns)]++
}

func gapBucket(ns int64) int {
	if ns < 1<<minGapLog {
		return 0
	}
	log := bits.Len64(uint64(ns)) - 1
	if log >= maxGapLog {
		return numGapBuckets - 1
	}
	return 1 + (log-minGapLog)<<gapBits + int(ns>>(log-gapBits))&(1<<gapBits-1)
}

// gapBound returns the longest gap of a bucket but the last.
func gapBound(bucket int) int64 {
	if bucket == 0 {
		return 1<<minGapLog - 1
	}
	bucket--
	log := minGapLog + bucket>>gapBits
	return int64(1<<gapBits+bucket&(1<<gapBits-1)+1)<<(log-gapBits) - 1
}

// Num returns how many gaps there were; of a nil histogram none.
func (g *Gaps) Num() int {
	if g == nil {
		return 0
	}
	return g.num
}

// Max returns the longest gap in nanoseconds, 0 if there was none.
func (g *Gaps) Max() int64 {
	if g == nil {
		return 0
	}
	return g.max
}

// P99 returns a time in nanoseconds that 99 of 100 gaps did not exceed: of up to 99 gaps
// the longest, of more the bound of a bucket, which is at most an eighth too long, but no
// longer than the longest gap. It is 0 without gaps.
func (g *Gaps) P99() int64 {
	if g == nil {
		return 0
	}
	rank := (g.num*99 + 99) / 100
	for bucket, n := range g.counts[:numGapBuckets-1] {
		if rank -= int(n); rank <= 0 {
			return min(gapBound(bucket), g.max)
		}
	}
	return g.max
}
