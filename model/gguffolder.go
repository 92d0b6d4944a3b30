package model

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/gguf"
	"github.com/troupe-llm/troupe/model/gguf/hf"
	"github.com/troupe-llm/troupe/model/safetensors"
)

const ggufSuffix = ".gguf"

// fromGGUF has the files of a folder that a GGUF file's metadata stands for.
var fromGGUF = map[string]func(*gguf.File) ([]byte, error){
	"config.json":           hf.Config,
	"tokenizer.json":        hf.Tokenizer,
	"tokenizer_config.json": hf.TokenizerConfig,
}

// onlyGGUF returns the path of the folder's GGUF file if that is where its
// weights are, "" if they are somewhere else.
func (f *Folder) onlyGGUF() (string, error) {
	if f.Has(singleFile) || f.Has(indexFile) {
		return "", nil
	}
	var found []string
	for _, name := range f.list() {
		if strings.HasSuffix(strings.ToLower(name), ggufSuffix) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 0:
		return "", nil
	case len(found) == 1, areParts(found):
		return filepath.Join(f.dir, found[0]), nil
	}
	return "", infer.Errorf(infer.CodeInvalid, "model",
		"%s holds %d GGUF files; name one of them: %s", f.name, len(found), strings.Join(found, ", "))
}

// areParts reports whether files are parts of one model. Whether any is missing will
// be said when they are opened.
func areParts(names []string) bool {
	all := gguf.PartNames(names[0])
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// fileOfGGUF makes a file of the folder from the metadata. The GGUF file is open
// during the call only.
func (f *Folder) fileOfGGUF(name string) (b []byte, err error) {
	convert := fromGGUF[name]
	if convert == nil {
		return nil, &fs.PathError{Op: "open", Path: f.gguf + "/" + name, Err: fs.ErrNotExist}
	}
	p, err := openParts(f.gguf)
	if err != nil {
		return nil, err
	}
	defer p.close() // nothing was written
	base := filepath.Base(f.gguf)
	err = reading(base, base, func() error {
		b, err = convert(p.file)
		return err
	})
	return b, err
}

// parseGGUF parses a file, or says what has come in its place.
func parseGGUF(name string, data []byte) (*gguf.File, error) {
	if what := impostor(data); what != "" {
		return nil, infer.Errorf(infer.CodeInvalid, name, "%s: %s", name, what)
	}
	return gguf.Parse(name, data)
}

// openGGUF maps the folder's GGUF file, or its parts.
func (c *checkpoint) openGGUF(f *Folder) error {
	name := filepath.Base(f.gguf)
	p, err := openParts(f.gguf)
	if err != nil {
		return unreadable(f, name, err)
	}
	c.shards = append(c.shards, p.shards...)
	return reading(name, name, func() error {
		tensors, err := hf.Tensors(p.file)
		for _, t := range tensors {
			c.tensors[t.Name] = located{
				Tensor: safetensors.Tensor{Name: t.Name, DType: t.Type.String(), Shape: t.Shape, Data: t.Data},
				shard:  p.shards[t.Part], pairedHeads: t.PairedHeads,
			}
		}
		return err
	})
}
