package arch

import (
	"fmt"
	"strconv"
)

// Names are the names of a checkpoint's tensors, without the ".weight" or ".bias"
// at their end. "" = there is no such tensor: a nonempty name is what puts the
// operation into the forward pass.
type Names struct {
	Embedding, FinalNorm, Head string

	// Layer is what the names of layer %d begin with; those below follow it.
	Layer         string
	AttentionNorm string // before attention
	Q, K, V       string
	QKV           string // one tensor in place of the three
	QNorm, KNorm  string // of each query and key
	O             string
	PostAttention string // norm of attention's output
	MLPNorm       string // before the MLP
	Gate, Up      string
	GateUp        string // one tensor in place of the two
	Down          string
	PostMLP       string // norm of the MLP's output

	// The tensors of a layer whose MLP is a mixture of experts: the router, and
	// expert %d's.
	Router, ExpertGate, ExpertUp, ExpertDown string
}

// llamaNames are Llama's; others begin as copies.
var llamaNames = Names{
	Embedding: "model.embed_tokens", FinalNorm: "model.norm", Head: "lm_head",
	Layer:         "model.layers.%d.",
	AttentionNorm: "input_layernorm",
	Q:             "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj",
	MLPNorm: "post_attention_layernorm",
	Gate:    "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj",
}

// with returns a copy of n with changes.
func (n Names) with(change func(*Names)) Names {
	change(&n)
	return n
}

// withHeadNorms returns a copy of n whose queries and keys are normalized.
func (n Names) withHeadNorms() Names {
	n.QNorm, n.KNorm = "self_attn.q_norm", "self_attn.k_norm"
	return n
}

// OfLayer returns the whole name of a tensor of layer i.
func (n *Names) OfLayer(i int, name string) string { return fmt.Sprintf(n.Layer, i) + name }

// OfExpert returns the whole name of a tensor of expert e of layer i.
func (n *Names) OfExpert(i, e int, name string) string {
	return n.OfLayer(i, fmt.Sprintf(name, e))
}

// GGUF returns the whole name of a tensor of a GGUF file, given without its
// ".weight" or ".bias", in this layout; ok is false if there is none. A tensor
// that holds all experts' weights, [experts, rows, columns], gets a name with %d
// in the place of the expert's number.
func (n *Names) GGUF(name string) (renamed string, ok bool) {
	switch name {
	case "token_embd":
		return n.Embedding, true
	case "output_norm":
		return n.FinalNorm, true
	case "output":
		return n.Head, true
	}
	var layer int
	var role string
	if _, err := fmt.Sscanf(name, "blk.%d.%s", &layer, &role); err != nil || name != "blk."+strconv.Itoa(layer)+"."+role {
		return "", false
	}
	if renamed = n.role(role); renamed == "" {
		return "", false
	}
	return n.OfLayer(layer, renamed), true
}

// role returns the name of what GGUF files call so within a layer.
func (n *Names) role(gguf string) string {
	roles := map[string]string{
		"attn_norm": n.AttentionNorm, "attn_q": n.Q, "attn_k": n.K, "attn_v": n.V, "attn_qkv": n.QKV,
		"attn_q_norm": n.QNorm, "attn_k_norm": n.KNorm, "attn_output": n.O, "post_attention_norm": n.PostAttention,
		"ffn_norm": n.MLPNorm, "ffn_gate": n.Gate, "ffn_up": n.Up, "ffn_down": n.Down, "post_ffw_norm": n.PostMLP,
		"ffn_gate_inp": n.Router, "ffn_gate_exps": n.ExpertGate, "ffn_up_exps": n.ExpertUp, "ffn_down_exps": n.ExpertDown,
	}
	if n.GateUp != "" {
		roles["ffn_up"] = n.GateUp
	}
	return roles[gguf]
}
