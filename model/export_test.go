package model

import (
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// FaultySampler panics in the place of a sampler's answer when Panics says so.
type FaultySampler struct {
	Panics func(r sampling.Row) bool
	inner  rowSampler
}

// Sample panics or samples.
func (s *FaultySampler) Sample(r sampling.Row) (int32, infer.TokenLogprobs, error) {
	if s.Panics(r) {
		panic("injected sampling fault")
	}
	return s.inner.Sample(r)
}

// Logprobs answers as the sampler does.
func (s *FaultySampler) Logprobs(logits []float32, token int32, numTop int) infer.TokenLogprobs {
	return s.inner.Logprobs(logits, token, numTop)
}

// InjectSamplingFault makes the samplers of m's next runners panic for some rows.
func InjectSamplingFault(m *Model, panics func(r sampling.Row) bool) {
	inner := m.newSampler
	m.newSampler = func() rowSampler { return &FaultySampler{Panics: panics, inner: inner()} }
}
