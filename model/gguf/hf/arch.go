package hf

import (
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/gguf"
)

// find returns the file's architecture and its prefix of keys.
func find(f *gguf.File) (*arch.Architecture, string, error) {
	m := &meta{file: f}
	m.required("general.architecture")
	name := m.text("general.architecture", "")
	experts := m.int(clip(name)+".expert_count", 0)
	if m.err != nil {
		return nil, "", m.err
	}
	a := arch.ByGGUF(name, experts > 0)
	if a == nil {
		what := "which is not supported"
		if experts > 0 {
			what = "whose mixtures of experts are not supported"
		}
		return nil, "", infer.Errorf(infer.CodeInvalid, f.Name(), "%s: metadata key \"general.architecture\" is %q, %s; supported: %s",
			f.Name(), clip(name), what, strings.Join(arch.GGUFNames(), ", "))
	}
	return a, name + ".", nil
}

// clip shortens a value for an error message.
func clip(s string) string {
	const limit = 80
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
