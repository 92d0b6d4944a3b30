package model

import (
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// faultySampler panics in the place of a sampler's answer when panics says so.
type faultySampler struct {
	panics func(r sampling.Row) bool
	inner  rowSampler
}

// Sample panics or samples.
func (s *faultySampler) Sample(r sampling.Row) (int32, infer.TokenLogprobs, error) {
	if s.panics(r) {
		panic("injected sampling fault")
	}
	return s.inner.Sample(r)
}

// Logprobs answers as the sampler does.
func (s *faultySampler) Logprobs(logits []float32, token int32, numTop int) infer.TokenLogprobs {
	return s.inner.Logprobs(logits, token, numTop)
}

// InjectSamplingFault makes the samplers of m's next runners panic for some rows.
func InjectSamplingFault(m *Model, panics func(r sampling.Row) bool) {
	inner := m.newSampler
	m.newSampler = func() rowSampler { return &faultySampler{panics: panics, inner: inner()} }
}

// InverseFrequencies exposes the rotary frequencies of a config.
func InverseFrequencies(c *Config) []float64 { return c.inverseFrequencies() }

// ParseGeneration exposes the parser of generation_config.json.
func ParseGeneration(b []byte, vocabSize int) (infer.SamplingDefaults, []int32, error) {
	g, err := parseGeneration(generationFile, b, vocabSize)
	return g.defaults, g.eosTokenIDs, err
}

// ParseIndex exposes the parser of the index of shards.
func ParseIndex(b []byte) (map[string][]string, error) { return parseIndex(b) }
