package arch

import (
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

// Architecture describes the decoders of one name. The zero value of a field is
// Llama's choice.
type Architecture struct {
	// Name is the value of "architectures" in config.json.
	Name string
	// Tensors are the names of the weights in safetensors files. A weight that has no
	// name here is not part of the computation.
	Tensors Names
	// QKVBias says that the query, key and value projections have biases.
	QKVBias bool
	// NormOffset is added to the weights of all norms as the file has them.
	NormOffset float64

	// Section is the member of config.json that describes the decoder, where others
	// describe what is not run; "" = the file itself.
	Section string
	// Defaults are members that files leave out.
	Defaults map[string]any
	// Foreign says how tensors are called where the checkpoint holds more than the
	// decoder.
	Foreign Foreign

	// What holds if config.json does not say:
	HeadDim    int        // 0 = hidden_size / num_attention_heads
	Activation Activation // of the MLP's gate
	Tied       bool       // the output matrix is the embedding table

	// Configure reads the members of config.json that only this architecture has,
	// once the common ones are in c; may be nil. Faults go to f.
	Configure func(c *Config, f *jsonfields.Fields)
	// GGUF says what is particular of the architecture's GGUF files.
	GGUF GGUF
}

// Foreign tells a decoder's tensors from those of other parts, which are not run.
type Foreign struct {
	Prefixes [][2]string // what a name may begin with, and what stands in Tensors instead
	Ignored  []string    // what names of other parts begin with
}

// Own returns a tensor's name as Tensors have it; ok is false for one of another
// part.
func (f *Foreign) Own(name string) (own string, ok bool) {
	for _, p := range f.Ignored {
		if strings.HasPrefix(name, p) {
			return "", false
		}
	}
	for _, p := range f.Prefixes {
		if rest, found := strings.CutPrefix(name, p[0]); found {
			return p[1] + rest, true
		}
	}
	return name, true
}

// GGUF maps an architecture's GGUF files to config.json. Tensors need no map: see
// [Names.GGUF].
type GGUF struct {
	// Name is the value of general.architecture, and the prefix of metadata keys; ""
	// if files of this architecture are another's.
	Name string
	// Paired says that rows of q and k are stored with the two halves of a rotated
	// pair side by side.
	Paired bool
	// Members maps metadata keys, less the prefix, to members of config.json.
	Members map[string]string
	// Complete adds members that hold in every file or follow from others; may be nil.
	Complete func(members map[string]any)
}

// all lists what is supported, in the order of messages.
var all = []*Architecture{
	&llama, &mistral, &mixtral, &qwen2, &qwen3, &qwen3MoE, &gemma2, &gemma3, &gemma3Multimodal, &phi3, &smolLM3,
}

// ByGGUF returns the architecture of a GGUF file, with or without experts, nil if
// it is not supported.
func ByGGUF(name string, experts bool) *Architecture {
	for _, a := range all {
		if name != "" && a.GGUF.Name == name && experts == (a.Tensors.Router != "") {
			return a
		}
	}
	return nil
}

// GGUFNames lists the values of general.architecture that are supported.
func GGUFNames() []string {
	var names []string
	for _, a := range all {
		if a.GGUF.Name != "" && !slices.Contains(names, a.GGUF.Name) {
			names = append(names, a.GGUF.Name)
		}
	}
	return names
}

// find returns the file's architecture if it is one of ours.
func find(f *jsonfields.Fields) *Architecture {
	var supported []string
	for _, a := range all {
		supported = append(supported, a.Name)
	}
	names := f.Strings("architectures")
	if len(names) == 0 {
		f.Fail("architectures", "is missing; supported: %s", strings.Join(supported, ", "))
		return nil
	}
	for _, a := range all {
		if slices.Contains(names, a.Name) {
			return a
		}
	}
	shown := names
	if len(names) > 4 {
		shown = names[:4]
	}
	f.Fail("architectures", "%.200q is not supported; supported: %s", shown, strings.Join(supported, ", "))
	return nil
}
