package model

import (
	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
)

// Options say how to load a model.
type Options struct {
	Backend compute.Backend // required; stays the caller's, and outlives the model

	// DType is the element type of the weights in memory: auto (that of the
	// checkpoint), float32, float16 or bfloat16.
	DType string
	// MaxModelLen is the context length in tokens: 0 = the config's
	// max_position_embeddings, -1 = the largest for which the KV cache has room.
	MaxModelLen int
	BlockSize   int // tokens per KV block; 0 = 16

	// NumBlocksOverride sets the number of KV blocks, else KVCacheMemoryBytes
	// the bytes they may take; both 0 = what MaxNumSeqs full sequences need, but
	// at most a quarter of the available memory and 4 GiB.
	NumBlocksOverride  int
	KVCacheMemoryBytes int64

	MaxNumSeqs          int // sequences in one step; > 0
	MaxNumBatchedTokens int // tokens in one step; > 0: sizes the activation buffers

	// GenerationConfig is auto (the folder's own file), vllm (no sampling
	// defaults from the model) or the path of another folder.
	GenerationConfig string
	// Progress, if set, is called from Load with bytes of weights read.
	Progress func(done, total int64)
}

// Model is a loaded model: weights in the backend's memory and what its config
// files say. At most one of its runners is alive at a time.
type Model struct {
	config Config
}

// Load reads a folder's config files and weights. Every error that is the
// folder's or an option's fault is an *infer.Error naming it.
func Load(f *Folder, o Options) (*Model, error) {
	return nil, infer.Errorf(infer.CodeNotImplemented, "model", "loading %s is not available", f.Name())
}

// NewRunner returns a runner with an empty KV cache over the model's weights. A
// runner that is still open is closed first.
func (m *Model) NewRunner() (*Runner, error) { return &Runner{}, nil }

// Config returns the architecture.
func (m *Model) Config() Config { return m.config }

// NumParameters counts the weights' elements, tied ones once.
func (m *Model) NumParameters() int64 { return 0 }

// Defaults returns the sampling values of generation_config.json.
func (m *Model) Defaults() infer.SamplingDefaults { return infer.SamplingDefaults{} }

// EOSTokenIDs returns the model's end-of-sequence ids: those of
// generation_config.json, else those of config.json. The tokenizer's own may
// come on top.
func (m *Model) EOSTokenIDs() []int32 { return nil }
