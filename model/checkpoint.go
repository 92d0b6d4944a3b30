package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/safetensors"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	maxShards  = 4096
)

// checkpoint is a folder's tensors, mapped. It must be closed; the tensors'
// bytes are gone then.
type checkpoint struct {
	shards  []*shard
	tensors map[string]located
}

// shard is one file of a checkpoint.
type shard struct {
	name string
	m    *mapping
}

// located is a tensor and the file that it lies in.
type located struct {
	safetensors.Tensor
	shard       *shard
	pairedHeads int // in how many heads the rows wait to be rearranged, see hf.Tensor; 0 = none
}

// openCheckpoint maps the folder's weight file, the shards that its index names,
// or its GGUF file.
func openCheckpoint(f *Folder) (*checkpoint, error) {
	c := &checkpoint{tensors: map[string]located{}}
	var err error
	switch {
	case f.gguf != "":
		err = c.openGGUF(f)
	case f.Has(singleFile):
		err = c.openSingle(f)
	case f.Has(indexFile):
		err = c.openSharded(f)
	default:
		err = noWeights(f)
	}
	if err != nil {
		_ = c.close() // the first error is the one to report
		return nil, err
	}
	return c, nil
}

// adopt gives the decoder's tensors the names that its architecture has for them,
// and leaves out those of other parts.
func (c *checkpoint) adopt(foreign *arch.Foreign) error {
	if len(foreign.Prefixes) == 0 && len(foreign.Ignored) == 0 {
		return nil
	}
	own := make(map[string]located, len(c.tensors))
	for name, t := range c.tensors {
		renamed, ok := foreign.Own(name)
		if !ok {
			continue
		}
		if _, twice := own[renamed]; twice {
			return infer.Errorf(infer.CodeInvalid, name, "%s: tensor %q is there twice, once as %q", t.shard.name, renamed, name)
		}
		own[renamed] = t
	}
	c.tensors = own
	return nil
}

func (c *checkpoint) openSingle(f *Folder) error {
	s, file, err := c.openShard(f, singleFile)
	if err != nil {
		return err
	}
	for _, t := range file.Tensors() {
		c.tensors[t.Name] = located{Tensor: t, shard: s}
	}
	return nil
}

func (c *checkpoint) openSharded(f *Folder) error {
	b, err := f.File(indexFile)
	if err != nil {
		return unreadable(f, indexFile, err)
	}
	byShard, err := parseIndex(b)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(byShard))
	for name := range byShard {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s, file, err := c.openShard(f, name)
		if err != nil {
			return err
		}
		for _, tensor := range byShard[name] {
			t, ok := file.Lookup(tensor)
			if !ok {
				return infer.Errorf(infer.CodeInvalid, indexFile,
					"%s: tensor %q is said to be in %s, but it is not there: the files belong to different models or a download is incomplete", indexFile, tensor, name)
			}
			c.tensors[tensor] = located{Tensor: t, shard: s}
		}
	}
	return nil
}

// parseIndex returns the tensors that each shard is said to hold.
func parseIndex(b []byte) (map[string][]string, error) {
	f := parseFields(indexFile, b)
	if f.Err() != nil {
		return nil, f.Err()
	}
	var weightMap map[string]string
	if v := f.Raw("weight_map"); v == nil {
		f.Fail("weight_map", "is missing")
	} else if err := json.Unmarshal(v, &weightMap); err != nil {
		f.Fail("weight_map", "is not a map of tensor names to file names: %v", err)
	}
	byShard := map[string][]string{}
	for tensor, name := range weightMap {
		if !isLocalName(name) || !strings.HasSuffix(name, ".safetensors") {
			f.Fail("weight_map", "sends tensor %q to %q; it must be a *.safetensors file in the same folder", tensor, name)
		}
		byShard[name] = append(byShard[name], tensor)
	}
	if len(byShard) > maxShards {
		f.Fail("weight_map", "names %d files; the limit is %d", len(byShard), maxShards)
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return byShard, nil
}

func (c *checkpoint) openShard(f *Folder, name string) (*shard, *safetensors.File, error) {
	m, err := f.mapFile(name)
	if err != nil {
		return nil, nil, unreadable(f, name, err)
	}
	s := &shard{name: name, m: m}
	c.shards = append(c.shards, s)
	var file *safetensors.File
	err = reading(name, name, func() (err error) {
		file, err = safetensors.Parse(name, m.data)
		return err
	})
	return s, file, err
}

// close unmaps everything.
func (c *checkpoint) close() error {
	var errs []error
	for _, s := range c.shards {
		errs = append(errs, s.m.close())
	}
	c.shards, c.tensors = nil, nil
	return errors.Join(errs...)
}

// noWeights says what a folder without weights holds instead.
func noWeights(f *Folder) error {
	hint := "download the model's *.safetensors files too, or a *.gguf file"
	for _, name := range f.list() {
		switch {
		case strings.HasSuffix(name, ".safetensors"):
			return infer.Errorf(infer.CodeInvalid, indexFile,
				"%s: there is neither %s nor %s, but %s: the index of the shards is missing", f.Name(), singleFile, indexFile, name)
		case strings.HasPrefix(name, "pytorch_model") && strings.HasSuffix(name, ".bin"):
			hint = fmt.Sprintf("%s is a PyTorch checkpoint; convert it to safetensors first", name)
		}
	}
	return infer.Errorf(infer.CodeInvalid, singleFile,
		"%s: there are no weights (neither %s nor %s): %s", f.Name(), singleFile, indexFile, hint)
}
