package model

import (
	"github.com/troupe-llm/troupe/compute"
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

// ParseGeneration exposes the parser of generation_config.json.
func ParseGeneration(b []byte, vocabSize int) (infer.SamplingDefaults, []int32, error) {
	g, err := parseGeneration(generationFile, b, vocabSize)
	return g.defaults, g.eosTokenIDs, err
}

// ParseIndex exposes the parser of the index of shards.
func ParseIndex(b []byte) (map[string][]string, error) { return parseIndex(b) }

// ResolveSizes exposes the sizing of a float32 KV cache: its blocks and the
// context length.
func ResolveSizes(c *Config, o Options, available int64) (numBlocks, maxModelLen int, err error) {
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	s, err := resolveSizes(c, &o, compute.F32, memory{bytes: available})
	return s.kv.NumBlocks, s.maxModelLen, err
}

// AppendConverted exposes the conversion of element types.
func AppendConverted(dst []byte, t compute.RawTensor, to compute.DType) ([]byte, error) {
	return appendConverted(dst, t, to)
}
