package cpu

import kernels "github.com/troupe-llm/troupe/kernels/cpu"

// partial is what a span of the context, or several folded together, give to the
// columns of a panel: softmax(scores)·values is out divided by total.
type partial struct {
	largest lanes     // per column: the largest score
	total   lanes     // per column: Σ exp(score - largest)
	out     []float32 // [columns, padded head_dim]: Σ exp(score - largest) * value
}

// lanes has a place for every column that a panel may have.
type lanes [kernels.TileRows]float32

// fold adds the part of a span to sum, which holds the spans before it, for the
// columns that see any of it: both are brought to the larger of the two largest
// scores.
func (p *panel) fold(sum, part *partial, span int) {
	var a, b lanes
	first := p.firstSeeing(span * p.span)
	for j := first; j < p.n(); j++ {
		largest := max(sum.largest[j], part.largest[j])
		a[j], b[j] = sum.largest[j]-largest, part.largest[j]-largest
		sum.largest[j] = largest
	}
	kernels.ExpSum(p.b.tier, a[:], 0)
	kernels.ExpSum(p.b.tier, b[:], 0)
	for j := first; j < p.n(); j++ {
		sum.total[j] = float32(sum.total[j]*a[j]) + float32(part.total[j]*b[j])
		row := sum.out[j*p.padded:][:p.padded]
		kernels.Blend(p.b.tier, row, part.out[j*p.padded:][:p.padded], a[j], b[j])
	}
}
