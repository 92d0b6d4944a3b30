package model

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/gguf"
)

// ggufParts are the files of a GGUF model, mapped: one, or the parts that one was
// split into. They must be closed; the tensors' bytes are gone then.
type ggufParts struct {
	file   *gguf.File // with the tensors of all parts and the metadata of the first
	shards []*shard   // parallel to the parts
}

// openParts maps a model's files, given the path of one of them.
func openParts(path string) (*ggufParts, error) {
	dir, base := filepath.Split(path)
	names := gguf.PartNames(base)
	if names == nil {
		names = []string{base}
	}
	p := &ggufParts{}
	files := make([]*gguf.File, len(names))
	for i, name := range names {
		var err error
		if files[i], err = p.open(filepath.Join(dir, name)); err != nil {
			if len(names) > 1 && errors.Is(err, fs.ErrNotExist) {
				err = infer.Errorf(infer.CodeInvalid, name, "%s is missing in %s: it is part %d of %d of this model, which needs them all; download it, too", name, filepath.Clean(dir), i+1, len(names))
			}
			_ = p.close() // the first error is the one to report
			return nil, err
		}
	}
	p.file = files[0]
	if err := reading(base, base, func() error { return p.file.Join(files[1:]) }); err != nil {
		_ = p.close()
		return nil, err
	}
	return p, nil
}

// open maps and parses one file.
func (p *ggufParts) open(path string) (file *gguf.File, err error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	p.shards = append(p.shards, &shard{name: name, m: m})
	err = reading(name, name, func() error {
		file, err = parseGGUF(name, m.data)
		return err
	})
	return file, err
}

func (p *ggufParts) close() error {
	var errs []error
	for _, s := range p.shards {
		errs = append(errs, s.m.close())
	}
	return errors.Join(errs...)
}
