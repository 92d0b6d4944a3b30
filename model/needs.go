package model

import (
	"errors"

	"github.com/troupe-llm/troupe/compute"
)

// Needs is what a model takes of a machine.
type Needs struct {
	Architecture    string
	NumParameters   int64
	Types           string // of matrices in memory, for people
	WeightBytes     int64  // in memory, to a few percent
	DecodeBytes     int64  // of them, read by each decode step
	KVBytesPerToken int64
	MaxContext      int // tokens, as the config has it
}

// AvailableMemory is how many bytes Load takes to be there for weights and caches.
func AvailableMemory() int64 { return availableMemory() }

// CacheBudget returns how many bytes of what the weights leave of a machine's memory Load
// takes for keys and values if no option sizes them.
func CacheBudget(left int64) int64 { return memory{bytes: left}.cacheBudget() }

// KVReadBytes is how many bytes of keys and values the last of so many positions of a
// sequence reads: all of them, but for the layers whose window is smaller.
func (m *Model) KVReadBytes(positions int) int64 {
	kv := m.sizes.kv
	perLayer := compute.KVSpec{NumLayers: 1, NumKVHeads: kv.NumKVHeads, HeadDim: kv.HeadDim, BlockSize: 1, NumBlocks: 1, DType: kv.DType}.Bytes()
	n := int64(0)
	for _, l := range m.config.Layers {
		seen := positions
		if l.Window > 0 {
			seen = min(seen, l.Window)
		}
		n += int64(seen) * perLayer
	}
	return n
}

// Inspect reads a folder's config files and the list of its tensors, and says what
// Load would need with options of which only the types count. It fails where Load
// would fail for the folder's sake.
func Inspect(f *Folder, o Options) (n Needs, err error) {
	m := &Model{}
	o.MaxModelLen, o.Speculation, o.GenerationConfig = 0, nil, "vllm"
	if err := m.readConfigs(f, &o); err != nil {
		return n, err
	}
	c, err := openCheckpoint(f)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.adopt(&m.config.Foreign); err != nil {
		return n, err
	}
	items := m.weights.items(&m.config)
	_, elements, err := c.check(items, m.config.TieWordEmbeddings)
	if err != nil {
		return n, err
	}
	h, kv, err := (&loader{checkpoint: c}).resolveTypes(items, &o)
	if err != nil {
		return n, err
	}
	token := compute.KVSpec{
		NumLayers: m.config.NumLayers, NumKVHeads: m.config.NumKVHeads, HeadDim: m.config.HeadDim, BlockSize: 1, NumBlocks: 1, DType: kv,
	}
	return Needs{
		Architecture: m.config.Architecture, NumParameters: elements, Types: h.types(), WeightBytes: h.bytes, DecodeBytes: h.decodeBytes(),
		KVBytesPerToken: token.Bytes(), MaxContext: m.config.MaxContext(),
	}, nil
}
