package model

import (
	"math"
	"strings"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
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
)

// supportedArchitectures are the values of "architectures" that [Load] runs;
// they are the same computation.
var supportedArchitectures = []string{"LlamaForCausalLM", "MistralForCausalLM"}

// Config is the architecture of a decoder as config.json gives it, with types,
// ranges and divisibility checked.
type Config struct {
	Architecture string // as in the file: LlamaForCausalLM, …

	HiddenSize, IntermediateSize int
	NumLayers                    int
	NumHeads, NumKVHeads         int // NumHeads is a multiple of NumKVHeads
	HeadDim                      int // even
	VocabSize                    int
	MaxPositionEmbeddings        int // tokens
	RMSNormEps                   float64
	RopeTheta                    float64
	RopeScaling                  *RopeScaling // nil = none
	TieWordEmbeddings            bool         // the output matrix is the embedding table
	EOSTokenIDs                  []int32      // may be empty
}

// ParseConfig reads config.json. Errors are *infer.Error with CodeInvalid that
// name the member, its value and what is possible.
func ParseConfig(b []byte) (Config, error) {
	f := parseFields("config.json", b)
	if f.err != nil {
		return Config{}, f.err
	}
	c := Config{Architecture: architecture(f)}
	if f.err != nil {
		return Config{}, f.err
	}
	c.sizes(f)
	c.rope(f)
	c.refuse(f)
	c.RMSNormEps = f.requiredFloat("rms_norm_eps", floatRange{min: 0, max: 1, minOpen: true, maxOpen: true})
	c.TieWordEmbeddings = f.bool("tie_word_embeddings", false)
	c.EOSTokenIDs = f.tokenIDs("eos_token_id", c.VocabSize)
	if f.err != nil {
		return Config{}, f.err
	}
	return c, nil
}

// architecture returns the file's architecture if it is one of ours.
func architecture(f *fields) string {
	supported := strings.Join(supportedArchitectures, ", ")
	names := f.strings("architectures")
	if len(names) == 0 {
		f.fail("architectures", "is missing; supported: %s", supported)
		return ""
	}
	for _, name := range names {
		for _, s := range supportedArchitectures {
			if name == s {
				return name
			}
		}
	}
	f.fail("architectures", "%q is not supported; supported: %s", names, supported)
	return ""
}

func (c *Config) sizes(f *fields) {
	c.HiddenSize = f.requiredInt("hidden_size", intRange{1, maxHidden})
	c.IntermediateSize = f.requiredInt("intermediate_size", intRange{1, maxHidden})
	c.NumLayers = f.requiredInt("num_hidden_layers", intRange{1, maxLayers})
	c.NumHeads = f.requiredInt("num_attention_heads", intRange{1, maxHeads})
	c.NumKVHeads = f.int("num_key_value_heads", intRange{1, maxHeads}, c.NumHeads)
	c.VocabSize = f.requiredInt("vocab_size", intRange{1, maxVocab})
	c.MaxPositionEmbeddings = f.requiredInt("max_position_embeddings", intRange{1, maxContext})
	if f.err != nil {
		return
	}
	if c.NumHeads%c.NumKVHeads != 0 {
		f.fail("num_attention_heads", "is %d, not a multiple of num_key_value_heads %d", c.NumHeads, c.NumKVHeads)
		return
	}
	if !f.has("head_dim") {
		if c.HiddenSize%c.NumHeads != 0 {
			f.fail("head_dim", "is missing and hidden_size %d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumHeads)
			return
		}
		c.HeadDim = c.HiddenSize / c.NumHeads
	}
	c.HeadDim = f.int("head_dim", intRange{2, maxHeadDim}, c.HeadDim)
	if f.err == nil && (c.HeadDim%2 != 0 || c.HeadDim > maxHeadDim) { // a derived one, too
		f.fail("head_dim", "is %d; rotary embeddings need an even number up to %d", c.HeadDim, maxHeadDim)
	}
}

// refuse names features that would change the computation.
func (c *Config) refuse(f *fields) {
	if act := f.string("hidden_act", "silu"); act != "silu" && act != "swish" {
		f.fail("hidden_act", "%q is not supported; supported: silu", act)
	}
	for _, name := range []string{"attention_bias", "mlp_bias"} {
		if f.bool(name, false) {
			f.fail(name, "true is not supported: biases of linear layers are not part of the Llama forward")
		}
	}
	if f.has("quantization_config") {
		f.fail("quantization_config", "is not supported: use the model's float32, float16 or bfloat16 release")
	}
	if c.Architecture == "MistralForCausalLM" {
		// A window at least as long as the context changes nothing.
		if w := f.int("sliding_window", intRange{1, maxContext}, c.MaxPositionEmbeddings); w < c.MaxPositionEmbeddings {
			f.fail("sliding_window", "%d is not supported: attention is over the whole context of %d tokens", w, c.MaxPositionEmbeddings)
		}
	}
	if p := f.float("partial_rotary_factor", floatRange{min: 0, max: math.MaxFloat64}, 1); p != 1 {
		f.fail("partial_rotary_factor", "%g is not supported; supported: 1", p)
	}
}

// parseDType knows torch's names.
func parseDType(s string) (compute.DType, bool) {
	for _, d := range []compute.DType{compute.F32, compute.F16, compute.BF16} {
		if d.String() == s {
			return d, true
		}
	}
	return 0, false
}

// resolveDType turns the value of an option into an element type; auto is what
// "auto" stands for.
func resolveDType(param, option string, auto compute.DType) (compute.DType, error) {
	switch option {
	case "", "auto":
		return auto, nil
	case "half":
		return compute.F16, nil
	case "float":
		return compute.F32, nil
	}
	d, ok := parseDType(option)
	if !ok {
		return 0, infer.Errorf(infer.CodeInvalid, param,
			"--%s is %q; it must be auto, float32, float16 or bfloat16", strings.ReplaceAll(param, "_", "-"), option)
	}
	return d, nil
}
