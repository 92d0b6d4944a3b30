package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// Gemma 3, text only: Gemma 2 with normalized queries and keys in place of soft
// caps, five layers with a window to one without, and a base of the rotary
// embedding for each of the two kinds.
var gemma3 = Architecture{
	Name:       "Gemma3ForCausalLM",
	Tensors:    gemmaNames.withHeadNorms(),
	NormOffset: 1,
	HeadDim:    256,
	Activation: GELU,
	Tied:       true,
	Configure: func(c *Config, f *jsonfields.Fields) {
		c.gemma(f)
		pattern := f.Int("sliding_window_pattern", jsonfields.IntRange{Min: 1, Max: maxLayers}, 6)
		c.window(f, "sliding_window", func(i int) bool { return (i+1)%pattern != 0 })
		c.localRope(f)
	},
	GGUF: GGUF{
		Name: "gemma3",
		Members: map[string]string{
			"attention.sliding_window": "sliding_window", "rope.freq_base_swa": "rope_local_base_freq", "final_logit_softcapping": "final_logit_softcapping",
		},
		Complete: func(m map[string]any) { gemmaComplete(m, 62) },
	},
}

// Gemma 3 with eyes: its text part is gemma3, in files that leave much out. Images
// are not understood.
var gemma3Multimodal = Architecture{
	Name:    "Gemma3ForConditionalGeneration",
	Section: "text_config",
	Defaults: map[string]any{
		"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 131072,
		"rms_norm_eps": 1e-6, "rope_theta": 1e6, "sliding_window": 4096,
	},
	Foreign: Foreign{
		Prefixes: [][2]string{{"language_model.", ""}, {"model.language_model.", "model."}},
		Ignored:  []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
	},
	Tensors:    gemma3.Tensors,
	NormOffset: gemma3.NormOffset,
	HeadDim:    gemma3.HeadDim,
	Activation: gemma3.Activation,
	Tied:       gemma3.Tied,
	Configure:  gemma3.Configure,
}

// localRope gives the layers that slide a rotary embedding of their own, which is
// not scaled.
func (c *Config) localRope(f *jsonfields.Fields) {
	local := Rope{Theta: f.Float("rope_local_base_freq", thetaRange, 10000), Dim: c.HeadDim}
	if p := f.Object("rope_parameters"); p != nil {
		if o := p.Object("sliding_attention"); o != nil {
			local.read(o, c)
		}
	}
	c.Ropes = append(c.Ropes, local)
	for i := range c.Layers {
		if c.Layers[i].Sliding {
			c.Layers[i].Rope = 1
		}
	}
}
