package cpu

import kernels "github.com/troupe-llm/troupe/kernels/cpu"

// partial is what a span of the context, or several folded together, give to the
// columns of a panel: softmax(scores)·values is out divided by total.
type partial struct {
	largest lanes     // per column: the largest score, in units of ln 2
	total   lanes     // per column: Σ exp2(score - largest)
	out     []float32 // [columns, padded head_dim]: Σ exp2(score - largest) * value
}

// lanes has a place for every column that a panel may have.
type lanes [kernels.TileRows]float32

// fold adds the part of a span to sum, which holds the spans before it, for the
// columns that see any of it: both are brought to the larger of the two largest
// scores. Where a column's window begins in this span or later, sum holds nothing
// of it and takes the part as it is.
func (p *panel) fold(sum, part *partial, span int) {
	var a, b lanes
	start := span * spanPositions
	first := p.firstSeeing(start)
	for j := first; j < p.n(); j++ {
		if p.columns[j].from >= start {
			continue
		}
		largest := max(sum.largest[j], part.largest[j])
		a[j], b[j] = sum.largest[j]-largest, part.largest[j]-largest
		sum.largest[j] = largest
	}
	kernels.Exp2(p.b.tier, a[:])
	kernels.Exp2(p.b.tier, b[:])
	for j := first; j < p.n(); j++ {
		row, other := sum.out[j*p.padded:][:p.padded], part.out[j*p.padded:][:p.padded]
		if p.columns[j].from >= start {
			sum.largest[j], sum.total[j] = part.largest[j], part.total[j]
			copy(row, other)
			continue
		}
		sum.total[j] = float32(sum.total[j]*a[j]) + float32(part.total[j]*b[j])
		kernels.Blend(p.b.tier, row, other, a[j], b[j])
	}
}
