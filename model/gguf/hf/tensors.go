package hf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/gguf"
)

// Tensor is a tensor under its name in the Hugging Face layout.
type Tensor struct {
	gguf.Tensor
	// PairedHeads is in how many heads the rows are to be rearranged, 0 if they
	// are in order: row 2*i+h of a head of n rows belongs at row h*n/2+i. It
	// divides the rows, and a head has an even number of them.
	PairedHeads int
}

// maxTensors bounds what a file's tensors of all experts are cut into: room for
// 1024 experts in 80 layers.
const maxTensors = 1 << 18

// Tensors returns the file's tensors; one that holds the weights of all experts
// as a tensor for each of them. One whose name the architecture does not have
// keeps it; those that [Config] has used up are left out.
func Tensors(f *gguf.File) ([]Tensor, error) {
	a, prefix, err := find(f)
	if err != nil {
		return nil, err
	}
	m := &meta{file: f}
	numHeads := m.requiredInt(prefix + "attention.head_count")
	numKVHeads := m.int(prefix+"attention.head_count_kv", numHeads)
	if m.err != nil {
		return nil, m.err
	}
	list := make([]Tensor, 0, len(f.Tensors()))
	for _, t := range f.Tensors() {
		if slices.Contains(usedUp, t.Name) {
			continue
		}
		role, name := rename(a, t.Name)
		own := Tensor{Tensor: t}
		own.Name = name
		paired := a.GGUF.Paired && (role == "attn_q" || role == "attn_k")
		if paired {
			own.PairedHeads = numHeads
			if role == "attn_k" {
				own.PairedHeads = numKVHeads
			}
		}
		if n := own.PairedHeads; n > 0 && t.Shape[0]%(2*n) != 0 || n == 0 && paired {
			return nil, infer.Errorf(infer.CodeInvalid, f.Name(),
				"%s: tensor %q has %d rows, which %d heads cannot share in pairs", f.Name(), t.Name, t.Shape[0], n)
		}
		if !strings.Contains(name, "%d") {
			list = append(list, own)
		} else if list = appendExperts(list, own); len(list) > maxTensors {
			return nil, infer.Errorf(infer.CodeInvalid, f.Name(), "%s: there are more than %d tensors of experts", f.Name(), maxTensors)
		}
	}
	return list, nil
}

// rename returns a tensor's name in the other layout, and its role within a layer. A
// %d in the name is the architecture's, never the file's: names are formats then.
func rename(a *arch.Architecture, name string) (role, renamed string) {
	base, suffix := name, ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		base, suffix = name[:i], name[i:]
	}
	if to, ok := a.Tensors.GGUF(base); ok {
		return base[strings.LastIndexByte(base, '.')+1:], to + strings.ReplaceAll(suffix, "%", "")
	}
	return "", strings.ReplaceAll(name, "%", "")
}

// appendExperts cuts a tensor [experts, rows, columns] into one per expert. One of
// another shape stays, under the name of the first: its shape will be refused.
func appendExperts(list []Tensor, t Tensor) []Tensor {
	form, n := t.Name, t.Shape[0]
	if len(t.Shape) != 3 || n < 1 || n > maxTensors || len(t.Data)%n != 0 {
		t.Name = fmt.Sprintf(form, 0)
		return append(list, t)
	}
	size := len(t.Data) / n
	for e := range n {
		one := t
		one.Name, one.Shape, one.Data = fmt.Sprintf(form, e), t.Shape[1:], t.Data[e*size:(e+1)*size:(e+1)*size]
		list = append(list, one)
	}
	return list
}
