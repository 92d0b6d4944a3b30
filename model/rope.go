package model

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
)

// RopeScaling is the "llama3" kind of scaled rotary embedding: frequencies
// whose wavelength is long against the original context are divided by Factor,
// short ones stay, and those between are blended
// (transformers/modeling_rope_utils.py, _compute_llama3_parameters).
type RopeScaling struct {
	Factor                        float64 // >= 1
	LowFreqFactor, HighFreqFactor float64 // 0 < low < high
	OriginalMaxPositionEmbeddings int     // tokens
}

// rope reads rope_theta and rope_scaling, or rope_parameters, which newer
// files have in place of both.
func (c *Config) rope(f *fields) {
	theta := floatRange{min: 1, max: 1e12}
	c.RopeTheta = f.float("rope_theta", theta, 10000)
	o := f.object("rope_scaling")
	if p := f.object("rope_parameters"); p != nil {
		o = p
		c.RopeTheta = o.float("rope_theta", theta, c.RopeTheta)
	}
	if o == nil {
		return
	}
	kind := "rope_type"
	if !o.has(kind) {
		kind = "type" // the name in older files
	}
	switch s := o.string(kind, "default"); s {
	case "default":
	case "llama3":
		c.RopeScaling = llama3Scaling(o)
	default:
		o.fail(kind, "%q is not supported; supported: default, llama3", s)
	}
	if f.err == nil {
		f.err = o.err
	}
}

func llama3Scaling(o *fields) *RopeScaling {
	positive := floatRange{min: 0, max: 1e6, minOpen: true}
	s := &RopeScaling{
		Factor:                        o.requiredFloat("factor", floatRange{min: 1, max: 1e6}),
		LowFreqFactor:                 o.requiredFloat("low_freq_factor", positive),
		HighFreqFactor:                o.requiredFloat("high_freq_factor", positive),
		OriginalMaxPositionEmbeddings: o.requiredInt("original_max_position_embeddings", intRange{1, maxContext}),
	}
	if o.err == nil && s.LowFreqFactor >= s.HighFreqFactor {
		o.fail("low_freq_factor", "%g must be below high_freq_factor %g", s.LowFreqFactor, s.HighFreqFactor)
	}
	return s
}

// inverseFrequencies returns radians per position of each rotated pair.
func (c *Config) inverseFrequencies() []float64 {
	inv := make([]float64, c.HeadDim/2)
	for i := range inv {
		inv[i] = math.Pow(c.RopeTheta, -2*float64(i)/float64(c.HeadDim))
		if c.RopeScaling != nil {
			inv[i] = c.RopeScaling.scale(inv[i])
		}
	}
	return inv
}

func (s *RopeScaling) scale(inv float64) float64 {
	// How many turns the pair makes within the original context.
	turns := float64(s.OriginalMaxPositionEmbeddings) * inv / (2 * math.Pi)
	switch {
	case turns < s.LowFreqFactor:
		return inv / s.Factor
	case turns > s.HighFreqFactor:
		return inv
	}
	smooth := (turns - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return (1-smooth)*inv/s.Factor + smooth*inv
}

// ropeTable computes the cosines and sines of positions 0 … positions-1. The
// angles are float64: at long context float32 angles lose whole digits.
func (c *Config) ropeTable(positions int) compute.RopeTable {
	inv := c.inverseFrequencies()
	t := compute.RopeTable{
		HalfDim: len(inv),
		Cos:     make([]float32, positions*len(inv)),
		Sin:     make([]float32, positions*len(inv)),
	}
	for pos := range positions {
		for i, f := range inv {
			sin, cos := math.Sincos(float64(pos) * f)
			t.Cos[pos*len(inv)+i], t.Sin[pos*len(inv)+i] = float32(cos), float32(sin)
		}
	}
	return t
}
