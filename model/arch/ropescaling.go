package arch

import (
	"math"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

var (
	factorRange   = jsonfields.FloatRange{Min: 1, Max: 1e6}
	positiveRange = jsonfields.FloatRange{Min: 0, Max: 1e6, MinOpen: true}
	contextRange  = jsonfields.IntRange{Min: 2, Max: maxContext}
)

// RopeScaling stretches a rotary embedding over longer contexts. The kinds are
// those of transformers' modeling_rope_utils.py.
type RopeScaling struct {
	// Kind is linear, dynamic, llama3, yarn or longrope.
	Kind   string
	Factor float64 // >= 1; not of longrope
	// OriginalMaxPositionEmbeddings is the context before stretching, in tokens;
	// not of linear.
	OriginalMaxPositionEmbeddings int
	// AttentionFactor multiplies cosines and sines, and so scores twice; 0 = 1. Of
	// yarn and longrope.
	AttentionFactor float64

	LowFreqFactor, HighFreqFactor float64 // of llama3: 0 < low < high

	BetaFast, BetaSlow float64 // of yarn, in turns
	Truncate           bool    // of yarn: the bounds of the blend are rounded

	ShortFactors, LongFactors []float64 // of longrope, per pair
}

func (s *RopeScaling) readLlama3(o *jsonfields.Fields) {
	s.Factor = o.RequiredFloat("factor", factorRange)
	s.LowFreqFactor = o.RequiredFloat("low_freq_factor", positiveRange)
	s.HighFreqFactor = o.RequiredFloat("high_freq_factor", positiveRange)
	s.OriginalMaxPositionEmbeddings = o.RequiredInt("original_max_position_embeddings", jsonfields.IntRange{Min: 1, Max: maxContext})
	if o.Err() == nil && s.LowFreqFactor >= s.HighFreqFactor {
		o.Fail("low_freq_factor", "%g must be below high_freq_factor %g", s.LowFreqFactor, s.HighFreqFactor)
	}
}

func (s *RopeScaling) readYarn(o *jsonfields.Fields, c *Config, theta float64) {
	s.Factor = o.RequiredFloat("factor", factorRange)
	s.OriginalMaxPositionEmbeddings = o.Int("original_max_position_embeddings", contextRange, c.MaxPositionEmbeddings)
	s.BetaFast, s.BetaSlow = o.Float("beta_fast", positiveRange, 32), o.Float("beta_slow", positiveRange, 1)
	s.Truncate = o.Bool("truncate", true)
	mscale := func(weight float64) float64 { return 0.1*weight*math.Log(s.Factor) + 1 }
	s.AttentionFactor = mscale(1)
	if m, all := o.Float("mscale", jsonfields.FloatRange{Max: 1e6}, 0), o.Float("mscale_all_dim", jsonfields.FloatRange{Max: 1e6}, 0); m > 0 && all > 0 {
		s.AttentionFactor = mscale(m) / mscale(all)
	}
	s.AttentionFactor = o.Float("attention_factor", positiveRange, s.AttentionFactor)
	if o.Err() == nil && theta <= 1 {
		o.Fail("rope_theta", "is %g; yarn needs one above 1", theta)
	}
}

func (s *RopeScaling) readLongrope(o *jsonfields.Fields, dim int) {
	s.ShortFactors = o.Floats("short_factor", positiveRange, dim/2)
	s.LongFactors = o.Floats("long_factor", positiveRange, dim/2)
	s.OriginalMaxPositionEmbeddings = o.Int("original_max_position_embeddings", contextRange, 0)
	s.AttentionFactor = o.Float("attention_factor", positiveRange, 0)
}

// complete settles the original context of longrope, which the file may give in
// either of two places, and what follows from it.
func (s *RopeScaling) complete(o *jsonfields.Fields, c *Config, original int) {
	s.OriginalMaxPositionEmbeddings = original
	if original == 0 {
		o.Fail("original_max_position_embeddings", "is missing; it must be an integer from %d to %d", contextRange.Min, contextRange.Max)
		return
	}
	s.Factor = float64(c.MaxPositionEmbeddings) / float64(original)
	if s.AttentionFactor == 0 && s.Factor > 1 {
		s.AttentionFactor = math.Sqrt(1 + math.Log(s.Factor)/math.Log(float64(original)))
	}
}

// theta returns the base. That of the dynamic kind grows with the context beyond
// the original one: transformers moves it as a sequence grows, which would turn
// keys that are stored already; here it is that of the longest context served.
func (s *RopeScaling) theta(theta float64, dim, positions int) float64 {
	if original := s.OriginalMaxPositionEmbeddings; s.Kind == "dynamic" && positions > original {
		grown := s.Factor*float64(positions)/float64(original) - (s.Factor - 1)
		return theta * math.Pow(grown, float64(dim)/float64(dim-2))
	}
	return theta
}

// scale changes the frequencies of pairs.
func (s *RopeScaling) scale(inverse []float64, r *Rope, positions int) {
	switch s.Kind {
	case "linear":
		for i := range inverse {
			inverse[i] /= s.Factor
		}
	case "llama3":
		for i := range inverse {
			inverse[i] = s.llama3(inverse[i])
		}
	case "yarn":
		s.yarn(inverse, r)
	case "longrope":
		// transformers chooses at every call by its length; keys that are stored
		// already leave one choice for all, by the longest context served.
		factors := s.ShortFactors
		if positions > s.OriginalMaxPositionEmbeddings {
			factors = s.LongFactors
		}
		for i := range inverse {
			inverse[i] /= factors[i]
		}
	}
}

// llama3 divides frequencies whose wavelength is long against the original context
// by the factor, keeps short ones and blends those between.
func (s *RopeScaling) llama3(inverse float64) float64 {
	// How many turns the pair makes within the original context.
	turns := float64(s.OriginalMaxPositionEmbeddings) * inverse / (2 * math.Pi)
	switch {
	case turns < s.LowFreqFactor:
		return inverse / s.Factor
	case turns > s.HighFreqFactor:
		return inverse
	}
	smooth := (turns - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return (1-smooth)*inverse/s.Factor + smooth*inverse
}

// yarn keeps the pairs that make more than BetaFast turns within the original
// context, divides those that make fewer than BetaSlow, and blends those between,
// evenly by their number (arXiv 2309.00071, 3.2).
func (s *RopeScaling) yarn(inverse []float64, r *Rope) {
	pairAt := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(s.OriginalMaxPositionEmbeddings)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := pairAt(s.BetaFast), pairAt(s.BetaSlow)
	if s.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001
	}
	for i := range inverse {
		divided := min(max((float64(i)-low)/(high-low), 0), 1)
		inverse[i] = inverse[i]/s.Factor*divided + inverse[i]*(1-divided)
	}
}

// MaxContext returns the longest context that the model can serve, in tokens:
// max_position_embeddings, or more where its rotary embedding can stretch.
func (c *Config) MaxContext() int {
	longest := float64(c.MaxPositionEmbeddings)
	if s := c.Ropes[0].Scaling; s != nil && (s.Kind == "dynamic" || s.Kind == "yarn") {
		longest = max(longest, s.Factor*float64(s.OriginalMaxPositionEmbeddings))
	}
	return int(min(longest, maxContext))
}
