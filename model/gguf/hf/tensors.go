package hf

import (
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/infer"
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

// Tensors returns the file's tensors. One whose name the architecture does not
// have keeps it; those that [Config] has used up are left out.
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
		if t.Name == ropeFactors {
			continue
		}
		role, name := a.rename(t.Name)
		own := Tensor{Tensor: t}
		own.Name = name
		switch {
		case a.paired && role == "attn_q":
			own.PairedHeads = numHeads
		case a.paired && role == "attn_k":
			own.PairedHeads = numKVHeads
		}
		if n := own.PairedHeads; n > 0 && t.Shape[0]%(2*n) != 0 || n == 0 && a.paired && (role == "attn_q" || role == "attn_k") {
			return nil, infer.Errorf(infer.CodeInvalid, f.Name(),
				"%s: tensor %q has %d rows, which %d heads cannot share in pairs", f.Name(), t.Name, t.Shape[0], n)
		}
		list = append(list, own)
	}
	return list, nil
}

// rename returns a tensor's name in the other layout, and its role within a layer.
func (a *architecture) rename(name string) (role, renamed string) {
	base, suffix := name, ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		base, suffix = name[:i], name[i:]
	}
	if to, ok := outside[base]; ok {
		return "", to + suffix
	}
	rest, ok := strings.CutPrefix(base, "blk.")
	number, role, dotted := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	to, known := a.layer[role]
	if !ok || !dotted || err != nil || !known || strconv.Itoa(n) != number {
		return "", name
	}
	return role, "model.layers." + number + "." + to + suffix
}
