package arch

import (
	"math"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

// Bounds of a config's sizes: generous for any model, small enough that no
// product of two overflows and that a typing error is caught.
const (
	maxHidden  = 1 << 17
	maxLayers  = 1 << 10
	maxHeads   = 1 << 12
	maxHeadDim = 1 << 10
	maxVocab   = 1 << 22
	maxContext = 1 << 25
	maxExperts = 1 << 10 // of a layer

	maxMixtures = 1 << 16 // experts of all layers
)

// Config is the architecture of a decoder as config.json gives it, with types,
// ranges and divisibility checked, and what the forward pass has to do.
type Config struct {
	Architecture string // as in the file: LlamaForCausalLM, …
	Tensors      Names
	Foreign      Foreign

	HiddenSize, IntermediateSize int
	NumLayers                    int
	NumHeads, NumKVHeads         int // NumHeads is a multiple of NumKVHeads
	HeadDim                      int // even
	VocabSize                    int
	MaxPositionEmbeddings        int // tokens
	RMSNormEps                   float64
	TieWordEmbeddings            bool    // the output matrix is the embedding table
	EOSTokenIDs                  []int32 // may be empty

	QKVBias          bool
	NormOffset       float64 // added to the weights of norms
	Activation       Activation
	EmbeddingScale   float64 // > 0
	AttentionScale   float64 // of q·k, > 0
	AttentionSoftCap float64 // 0 = none
	LogitSoftCap     float64 // 0 = none
	Ropes            []Rope  // at least one
	Layers           []Layer // [NumLayers]
	Experts          Experts // of sparse layers
}

// Layer is what layers may differ in.
type Layer struct {
	Sliding bool // it is of the kind that has a window
	Window  int  // positions that a query sees, its own included; 0 = all
	Rope    int  // index into Ropes, or NoRope
	Sparse  bool // its MLP is a mixture of experts
}

// NoRope is the Rope of a layer that does not rotate.
const NoRope = -1

// Experts sizes the mixtures of experts.
type Experts struct {
	Num              int // 0 = there are none
	PerToken         int // 1 … Num
	IntermediateSize int
	Normalize        bool // the weights of a token's experts sum to 1
}

// Activation is the function of an MLP's gate.
type Activation uint8

// Activations.
const (
	SiLU Activation = iota
	GELU            // in its approximation by tanh
)

// Parse reads the members of config.json. Errors are *infer.Error with
// CodeInvalid that name the member, its value and what is possible.
func Parse(f *jsonfields.Fields) (Config, error) {
	if f.Err() != nil {
		return Config{}, f.Err()
	}
	a := find(f)
	if f.Err() != nil {
		return Config{}, f.Err()
	}
	if f = a.decoder(f); f.Err() != nil {
		return Config{}, f.Err()
	}
	c := Config{Architecture: a.Name, Tensors: a.Tensors, Foreign: a.Foreign, QKVBias: a.QKVBias, NormOffset: a.NormOffset, EmbeddingScale: 1}
	c.sizes(f, a.HeadDim)
	if f.Err() != nil {
		return Config{}, f.Err()
	}
	c.AttentionScale = 1 / math.Sqrt(float64(c.HeadDim))
	c.Layers = make([]Layer, c.NumLayers)
	c.readRope(f)
	c.activation(f, a.Activation)
	refuse(f)
	c.RMSNormEps = f.RequiredFloat("rms_norm_eps", jsonfields.FloatRange{Min: 0, Max: 1, MinOpen: true, MaxOpen: true})
	c.TieWordEmbeddings = f.Bool("tie_word_embeddings", a.Tied)
	c.EOSTokenIDs = f.TokenIDs("eos_token_id", c.VocabSize)
	if f.Err() == nil && a.Configure != nil {
		a.Configure(&c, f)
	}
	if f.Err() != nil {
		return Config{}, f.Err()
	}
	return c, nil
}

// decoder returns the members that describe the decoder.
func (a *Architecture) decoder(f *jsonfields.Fields) *jsonfields.Fields {
	if a.Section != "" {
		section := f.Object(a.Section)
		if section == nil {
			f.Fail(a.Section, "is missing")
			return f
		}
		section.Inherit(f) // what concerns all parts
		f = section
	}
	for name, value := range a.Defaults {
		f.Default(name, value)
	}
	return f
}

func (c *Config) sizes(f *jsonfields.Fields, headDim int) {
	upTo := func(limit int64) jsonfields.IntRange { return jsonfields.IntRange{Min: 1, Max: limit} }
	c.HiddenSize = f.RequiredInt("hidden_size", upTo(maxHidden))
	c.IntermediateSize = f.RequiredInt("intermediate_size", upTo(maxHidden))
	c.NumLayers = f.RequiredInt("num_hidden_layers", upTo(maxLayers))
	c.NumHeads = f.RequiredInt("num_attention_heads", upTo(maxHeads))
	c.NumKVHeads = f.Int("num_key_value_heads", upTo(maxHeads), c.NumHeads)
	c.VocabSize = f.RequiredInt("vocab_size", upTo(maxVocab))
	c.MaxPositionEmbeddings = f.RequiredInt("max_position_embeddings", upTo(maxContext))
	if f.Err() != nil {
		return
	}
	if c.NumHeads%c.NumKVHeads != 0 {
		f.Fail("num_attention_heads", "is %d, not a multiple of num_key_value_heads %d", c.NumHeads, c.NumKVHeads)
		return
	}
	if c.HeadDim = headDim; !f.Has("head_dim") && headDim == 0 {
		if c.HiddenSize%c.NumHeads != 0 {
			f.Fail("head_dim", "is missing and hidden_size %d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumHeads)
			return
		}
		c.HeadDim = c.HiddenSize / c.NumHeads
	}
	c.HeadDim = f.Int("head_dim", jsonfields.IntRange{Min: 2, Max: maxHeadDim}, c.HeadDim)
	if f.Err() == nil && (c.HeadDim%2 != 0 || c.HeadDim > maxHeadDim) { // a derived one, too
		f.Fail("head_dim", "is %d; rotary embeddings need an even number up to %d", c.HeadDim, maxHeadDim)
	}
}

// activation reads the MLP's activation; absent is what holds if there is none.
func (c *Config) activation(f *jsonfields.Fields, absent Activation) {
	name := "hidden_activation"
	if !f.Has(name) {
		name = "hidden_act"
	}
	switch s := f.String(name, ""); s {
	case "":
		c.Activation = absent
	case "silu", "swish":
		c.Activation = SiLU
	case "gelu_pytorch_tanh":
		c.Activation = GELU
	default:
		f.Fail(name, "%.60q is not supported; supported: silu, gelu_pytorch_tanh", s)
	}
}

// refuse names features that would change the computation.
func refuse(f *jsonfields.Fields) {
	for _, name := range []string{"attention_bias", "mlp_bias"} {
		if f.Bool(name, false) {
			f.Fail(name, "true is not supported: biases of all projections are not part of the forward pass")
		}
	}
	if f.Has("quantization_config") {
		f.Fail("quantization_config", "is not supported: use the model's float32, float16 or bfloat16 release, or a GGUF file")
	}
}

// window gives layers the window that a member holds, if it is there: those that
// layer_types names, or else those that sliding is true for.
func (c *Config) window(f *jsonfields.Fields, name string, sliding func(layer int) bool) {
	w := f.Int(name, jsonfields.IntRange{Min: 1, Max: maxContext}, 0)
	types := f.Strings("layer_types")
	if f.Err() != nil {
		return
	}
	if types != nil && len(types) != c.NumLayers {
		f.Fail("layer_types", "has %d elements; there are %d layers", len(types), c.NumLayers)
		return
	}
	if w >= c.MaxContext() {
		w = 0 // it never closes
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Sliding = sliding(i)
		if types != nil {
			if l.Sliding = types[i] == "sliding_attention"; !l.Sliding && types[i] != "full_attention" {
				f.Fail("layer_types", "holds %.60q; supported: full_attention, sliding_attention", types[i])
				return
			}
		}
		if l.Sliding {
			l.Window = w
		}
	}
}

// experts reads the sizes of the mixtures.
func (c *Config) experts(f *jsonfields.Fields, num, intermediate string) {
	e := &c.Experts
	e.Num = f.RequiredInt(num, jsonfields.IntRange{Min: 1, Max: maxExperts})
	e.PerToken = f.RequiredInt("num_experts_per_tok", jsonfields.IntRange{Min: 1, Max: maxExperts})
	e.IntermediateSize = f.RequiredInt(intermediate, jsonfields.IntRange{Min: 1, Max: maxHidden})
	if f.Err() != nil {
		return
	}
	if e.PerToken > e.Num {
		f.Fail("num_experts_per_tok", "is %d; there are %d experts", e.PerToken, e.Num)
	}
	if n := e.Num * c.NumLayers; n > maxMixtures {
		f.Fail(num, "is %d, in %d layers; there may be at most %d experts in all", e.Num, c.NumLayers, maxMixtures)
	}
	if c.Activation != SiLU {
		f.Fail("hidden_act", "is not supported with experts; supported: silu")
	}
}
