package model

import (
	"errors"
	"math"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// Options say how to load a model.
type Options struct {
	// Backend holds the weights, and every runner has a fork of it; required. It
	// stays the caller's: closing it frees the weights once no runner is open.
	Backend compute.Backend

	// DType is the element type of the weights in memory: auto (that of the
	// checkpoint), float32, float16 or bfloat16. Quantised weights stay as they are.
	DType string
	// Quantization is what weights that are not quantised yet are quantised to at
	// load: q8_0, q4_0, or "" (nothing). With q4_0 the embedding table and the output
	// matrix get q8_0; norms, biases and routers of experts are left alone, and so
	// are rows whose length is no multiple of 32.
	Quantization string
	// KVCacheDType is that of keys and values: auto, one of the three, or int8. Auto
	// is float32 for a model of float32, else float16, which is nearer than bfloat16.
	KVCacheDType string
	// PrefaultKVCache takes the memory of a runner's KV cache at once, else as it is
	// used.
	PrefaultKVCache bool
	// MaxModelLen is the context length in tokens: 0 = the config's
	// max_position_embeddings, -1 = the largest for which the KV cache has room.
	MaxModelLen int
	BlockSize   int // tokens per KV block; 0 = 16

	// NumBlocksOverride sets the number of KV blocks, else KVCacheMemoryBytes
	// the bytes they may take; both 0 = what MaxNumSeqs full sequences need, but
	// at most a quarter of the available memory and 4 GiB; on a device with memory of its
	// own seven eighths of what weights leave.
	NumBlocksOverride  int
	KVCacheMemoryBytes int64

	MaxNumSeqs          int // sequences in one step; > 0
	MaxNumBatchedTokens int // tokens in one step; > 0: sizes the activation buffers

	// GenerationConfig is auto (the folder's own file), vllm (no sampling
	// defaults from the model) or the path of another folder.
	GenerationConfig string
	// NoWeights leaves the weights where they are: the model can be described, and has
	// no runners.
	NoWeights bool
	// Speculation, if set, makes runners propose draft tokens.
	Speculation *Speculation
	// WeightsCache is a folder where matrices are kept in the form that they have in
	// memory, if the backend is a compute.WeightsKeeper; "" = none. The next load maps
	// them, and processes that do share one copy.
	WeightsCache string
	// Notice, if set, is called from Load with what is worth a line in the log.
	Notice func(line string)
	// Progress, if set, is called from Load with bytes of weights read.
	Progress func(done, total int64)

	draftKV compute.KVSpec // of the draft model; NumLayers 0 = none
}

// Model is a loaded model: weights in the backend's memory, and what its config
// files say. It may have any number of runners.
type Model struct {
	config        Config
	generation    generation
	backend       compute.Backend
	types         string // of matrices in memory, for people
	quantized     bool   // at load
	isHollow      bool   // there are no weights
	numParameters int64
	decodeBytes   int64
	sizes         sizes
	maxTokens     int          // tokens in one step
	speculation   *Speculation // nil = off
	draft         *Model       // nil without a draft model

	newSampler func() rowSampler // one per runner

	weights   weights        // read-only once loaded
	ropes     []compute.Rope // those of the config
	unrotated compute.Rope   // nil if every layer rotates
}

// Load reads a folder's config files and weights. Everything that can be known
// to be wrong is found before the first weight is copied; errors that are the
// folder's or an option's fault are *infer.Error naming it. No file of the
// folder is open or mapped afterwards.
func Load(f *Folder, o Options) (*Model, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &Model{backend: o.Backend, maxTokens: o.MaxNumBatchedTokens, speculation: o.Speculation}
	if err := m.readConfigs(f, &o); err != nil {
		return nil, err
	}
	m.newSampler = func() rowSampler { return sampling.NewSampler(m.config.VocabSize) }
	if err := m.readWeights(f, &o); err != nil {
		return nil, err
	}
	if o.NoWeights {
		return m, nil
	}
	if err := m.makeRopes(); err != nil {
		return nil, err
	}
	return m, m.loadDraft(&o)
}

func (m *Model) readConfigs(f *Folder, o *Options) error {
	b, err := f.File("config.json")
	if err != nil {
		return unreadable(f, "config.json", err)
	}
	if m.config, err = ParseConfig(b); err != nil {
		return err
	}
	if limit := m.config.MaxContext(); o.MaxModelLen > limit {
		return infer.Errorf(infer.CodeInvalid, "max_model_len",
			"--max-model-len is %d, but the model's %s is %d", o.MaxModelLen, limitName(&m.config), limit)
	}
	if m.generation, err = loadGeneration(f, o.GenerationConfig, &m.config); err != nil {
		return err
	}
	return m.readDraftConfig(o)
}

// limitName says where the config's limit of the context comes from.
func limitName(c *Config) string {
	if c.MaxContext() == c.MaxPositionEmbeddings {
		return "max_position_embeddings"
	}
	return "max_position_embeddings, stretched by its rope_scaling,"
}

func (m *Model) readWeights(f *Folder, o *Options) (err error) {
	c, err := openCheckpoint(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.adopt(&m.config.Foreign); err != nil {
		return err
	}
	items := m.weights.items(&m.config)
	bytes, elements, err := c.check(items, m.config.TieWordEmbeddings)
	if err != nil {
		return err
	}
	l := &loader{checkpoint: c, backend: m.backend, progress: o.Progress, total: bytes}
	if err := m.resolve(l, items, o); err != nil {
		return err
	}
	if m.numParameters = elements; o.NoWeights {
		return nil
	}
	l.openKept(items, o)
	err = l.run(items)
	l.kept.end(err == nil)
	if err != nil {
		return err
	}
	if m.config.TieWordEmbeddings {
		m.weights.lmHead = m.weights.embed
	}
	return nil
}

// resolve settles the element types and sizes that options leave open.
func (m *Model) resolve(l *loader, items []item, o *Options) error {
	h, kv, err := l.resolveTypes(items, o)
	if err != nil {
		return err
	}
	m.types, m.quantized, m.decodeBytes = h.types(), h.quantised, h.decodeBytes()
	left, weights := availableTo(m.backend), h.bytes
	if m.isHollow = o.NoWeights; m.isHollow { // its sizes are limits of requests, no memory
		left, weights = memory{bytes: math.MaxInt64, own: true}, 0
	}
	if weights > left.bytes {
		return infer.Errorf(infer.CodeInvalid, "model",
			"the weights take %d bytes of memory, but only %d are available: choose a smaller model, one of fewer bits per weight, or --quantization q8_0 or q4_0", weights, left.bytes)
	}
	left.bytes -= weights
	m.sizes, err = resolveSizes(&m.config, o, kv, left)
	return err
}

// resolveTypes settles in which types weights, and keys and values, are held.
func (l *loader) resolveTypes(items []item, o *Options) (h held, kv compute.DType, err error) {
	checkpoint, err := checkpointDType(l.checkpoint, items)
	if err != nil {
		return h, 0, err
	}
	if l.dtype, err = resolveDType("dtype", o.DType, checkpoint); err != nil {
		return h, 0, err
	}
	if l.quantize, err = resolveQuantization(o.Quantization); err != nil {
		return h, 0, err
	}
	if h, err = l.held(items); err != nil {
		return h, 0, err
	}
	kv, err = resolveKVDType(o.KVCacheDType, autoKVDType(l.dtype))
	return h, kv, err
}

// autoKVDType returns the element type of keys and values for that of a model: no
// wider than the weights that made them.
func autoKVDType(model compute.DType) compute.DType {
	if model == compute.F32 {
		return compute.F32
	}
	return compute.F16
}

// NewRunner returns a runner with step buffers, threads and an empty KV cache of
// its own over the model's weights. It is closed by its user; the weights stay
// until the model's backend and the last runner are closed, in any order.
func (m *Model) NewRunner() (*Runner, error) {
	if m.isHollow {
		return nil, errors.New("model: it was loaded without weights")
	}
	own, err := m.newRoom()
	if err != nil {
		return nil, err
	}
	p, err := m.newProposer(own)
	if err != nil {
		return nil, errors.Join(err, own.close())
	}
	return newRunner(m, own, p), nil
}

// Config returns the architecture.
func (m *Model) Config() Config { return m.config }

// NumParameters counts the weights' elements, tied ones once.
func (m *Model) NumParameters() int64 { return m.numParameters }

// DecodeBytes is how many bytes of weights a decode step reads, to a few percent: all
// but the embedding table, of which it needs a row a token, unless that is the output
// matrix as well. Of a mixture of experts a step of few tokens reads less.
func (m *Model) DecodeBytes() int64 { return m.decodeBytes }

// Quantized reports whether [Options.Quantization] changed any weight: it does not
// where all are quantised already or have rows that are no whole blocks.
func (m *Model) Quantized() bool { return m.quantized }

// Defaults returns the sampling values of generation_config.json.
func (m *Model) Defaults() infer.SamplingDefaults { return m.generation.defaults }

// EOSTokenIDs returns the model's end-of-sequence ids: those of
// generation_config.json, else those of config.json. The tokenizer's own may
// come on top.
func (m *Model) EOSTokenIDs() []int32 { return m.generation.eosTokenIDs }

// MaxModelLen returns the context length in tokens, with 0 and -1 resolved.
func (m *Model) MaxModelLen() int { return m.sizes.maxModelLen }

// KVSpec returns the size of the KV cache that each runner has.
func (m *Model) KVSpec() compute.KVSpec { return m.sizes.kv }

// Spec describes the runners of this model.
func (m *Model) Spec() infer.RunnerSpec {
	return infer.RunnerSpec{
		NumBlocks: m.sizes.kv.NumBlocks, BlockSize: m.sizes.kv.BlockSize,
		VocabSize: m.config.VocabSize, MaxModelLen: m.sizes.maxModelLen,
		NumSpecTokens: m.numSpecTokens(), NumLookaheadSlots: m.numLookaheadSlots(),
		Device: m.backend.Describe(), DType: m.types,
	}
}
