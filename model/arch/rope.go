package arch

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/model/jsonfields"
)

var thetaRange = jsonfields.FloatRange{Min: 1, Max: 1e12}

// Rope is a rotary embedding.
type Rope struct {
	Theta   float64
	Dim     int          // elements of a head that it rotates, the first ones; even
	Scaling *RopeScaling // nil = none
}

// readRope reads rope_theta and rope_scaling, or rope_parameters, which newer
// files have in place of both, perhaps for each kind of layer.
func (c *Config) readRope(f *jsonfields.Fields) {
	r := Rope{Theta: f.Float("rope_theta", thetaRange, 10000), Dim: c.HeadDim}
	r.partial(f, c)
	o := f.Object("rope_scaling")
	if p := f.Object("rope_parameters"); p != nil {
		o = p
		if p.Has("full_attention") {
			o = p.Object("full_attention")
		}
	}
	c.Ropes = []Rope{r}
	if o != nil && f.Err() == nil {
		c.Ropes[0].read(o, c)
	}
	if s := c.Ropes[0].Scaling; s != nil && s.Kind == "longrope" {
		s.complete(o, c, f.Int("original_max_position_embeddings", contextRange, s.OriginalMaxPositionEmbeddings))
	}
}

// partial reads how much of a head is rotated.
func (r *Rope) partial(o *jsonfields.Fields, c *Config) {
	const name = "partial_rotary_factor"
	if !o.Has(name) {
		return
	}
	factor := o.Float(name, jsonfields.FloatRange{Min: 0, Max: 1, MinOpen: true}, 1)
	r.Dim = int(float64(c.HeadDim) * factor)
	if o.Err() == nil && (r.Dim < 2 || r.Dim%2 != 0) {
		o.Fail(name, "is %g: it rotates %d of a head's %d elements, which must be an even number", factor, r.Dim, c.HeadDim)
	}
}

// read reads rope_parameters or rope_scaling.
func (r *Rope) read(o *jsonfields.Fields, c *Config) {
	r.Theta = o.Float("rope_theta", thetaRange, r.Theta)
	r.partial(o, c)
	kind := "rope_type"
	if !o.Has(kind) {
		kind = "type" // the name in older files
	}
	s := &RopeScaling{Kind: o.String(kind, "default")}
	if s.Kind == "su" {
		s.Kind = "longrope" // its name before it was published
	}
	switch s.Kind {
	case "default":
		return
	case "linear":
		s.Factor = o.RequiredFloat("factor", factorRange)
	case "dynamic":
		s.Factor = o.RequiredFloat("factor", factorRange)
		s.OriginalMaxPositionEmbeddings = c.MaxPositionEmbeddings
	case "llama3":
		s.readLlama3(o)
	case "yarn":
		s.readYarn(o, c, r.Theta)
	case "longrope":
		s.readLongrope(o, r.Dim)
	default:
		o.Fail(kind, "%.60q is not supported; supported: default, linear, dynamic, llama3, yarn, longrope", s.Kind)
	}
	r.Scaling = s
}

// frequencies returns radians per position of each rotated pair, and what cosines
// and sines are multiplied by. positions is the longest context that is served.
func (r *Rope) frequencies(positions int) (inverse []float64, scale float64) {
	theta, scale := r.Theta, 1.0
	if r.Scaling != nil {
		theta = r.Scaling.theta(r.Theta, r.Dim, positions)
		if r.Scaling.AttentionFactor > 0 {
			scale = r.Scaling.AttentionFactor
		}
	}
	inverse = make([]float64, r.Dim/2)
	for i := range inverse {
		inverse[i] = math.Pow(theta, -2*float64(i)/float64(r.Dim))
	}
	if r.Scaling != nil {
		r.Scaling.scale(inverse, r, positions)
	}
	return inverse, scale
}

// Table computes the cosines and sines of positions 0 … positions-1, the context
// that is served. The angles are float64: at long context float32 angles lose whole
// digits.
func (r *Rope) Table(positions int) compute.RopeTable {
	inverse, scale := r.frequencies(positions)
	t := compute.RopeTable{
		HalfDim: len(inverse),
		Cos:     make([]float32, positions*len(inverse)),
		Sin:     make([]float32, positions*len(inverse)),
	}
	// A turn by pos is one by the start of its stretch and one by the rest: so there
	// are few sines to compute; the products are rounded as float64.
	near := turns(inverse, 0, min(stretch, positions))
	for from := 0; from < positions; from += stretch {
		far := turns(inverse, from, 1)
		for pos := from; pos < min(from+stretch, positions); pos++ {
			rest := near[(pos-from)*len(inverse):]
			for i := range inverse {
				turn := far[i] * rest[i]
				t.Cos[pos*len(inverse)+i], t.Sin[pos*len(inverse)+i] = float32(real(turn)*scale), float32(imag(turn)*scale)
			}
		}
	}
	return t
}

// stretch is how many positions share a far turn.
const stretch = 256

// turns returns the turns of n positions from from on: [n, pairs].
func turns(inverse []float64, from, n int) []complex128 {
	out := make([]complex128, 0, n*len(inverse))
	for i := range n {
		for _, f := range inverse {
			sin, cos := math.Sincos(float64(from+i) * f)
			out = append(out, complex(cos, sin))
		}
	}
	return out
}

// Unrotated is the table of layers that do not rotate: turns by nothing.
func Unrotated(positions int) compute.RopeTable {
	t := compute.RopeTable{HalfDim: 1, Cos: make([]float32, positions), Sin: make([]float32, positions)}
	for i := range t.Cos {
		t.Cos[i] = 1
	}
	return t
}
