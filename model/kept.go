package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/troupe-llm/troupe/compute"
)

// keptWeights are matrices as the backend holds them, in a file of their own: the next
// load maps them in place of making them again.
type keptWeights struct {
	keeper compute.WeightsKeeper // nil = neither taken nor kept
	taking bool                  // the file was good so far
	notice func(line string)
}

// openKept looks for what dir has of the items, and begins to keep them if it has
// nothing that can be used.
func (l *loader) openKept(items []item, o *Options) {
	keeper, ok := l.backend.(compute.WeightsKeeper)
	key, known := l.keptKey(items)
	if o.WeightsCache == "" || !ok || !known {
		return
	}
	l.kept = keptWeights{keeper: keeper, notice: o.Notice}
	path := filepath.Join(o.WeightsCache, hex.EncodeToString(key[:12])+".weights")
	err := keeper.OpenKept(path, key)
	if err == nil {
		l.kept.taking = true
		return
	}
	if !errors.Is(err, fs.ErrNotExist) {
		l.kept.say("The kept weights cannot be used and are made anew", err)
	}
	if err := keeper.KeepMatrices(path, key); err != nil {
		l.kept.say("The weights are not kept for the next start", err)
		l.kept.keeper = nil
	}
}

func (k *keptWeights) say(what string, err error) {
	if k.notice != nil {
		k.notice(fmt.Sprintf("%s: %v", what, err))
	}
}

// end finishes what openKept began.
func (k *keptWeights) end(loaded bool) {
	if k.keeper == nil {
		return
	}
	if err := k.keeper.EndKept(loaded); err != nil {
		k.say("The weights are not kept for the next start", err)
	}
}

// take sets the item's matrix to what was kept, if that is what is wanted.
func (k *keptWeights) take(l *loader, it item) bool {
	if !k.taking || it.matrix == nil {
		return false
	}
	parts := make([]compute.RawTensor, len(it.parts))
	for i, spec := range it.parts {
		t, err := l.checkpoint.find(spec)
		if err != nil {
			return false // load will say it
		}
		parts[i] = l.typed(t, it)
		parts[i].Data = nil
	}
	m, ok := k.keeper.KeptMatrix(parts...)
	if ok {
		*it.matrix = m
	}
	k.taking = ok
	return ok
}

// keptKey stands for all that the matrices are made of: the files, by what the system
// says of them and by samples of what they hold, and what is made of which tensor. It
// is not known of what is part of the binary.
func (l *loader) keptKey(items []item) (key [32]byte, known bool) {
	h := sha256.New()
	for _, s := range l.checkpoint.shards {
		identity, ok := s.m.identity()
		if !ok {
			return key, false
		}
		fmt.Fprintf(h, "file %q\n", identity)
		if err := reading(s.name, s.name, func() error { sample(h, s.m.data); return nil }); err != nil {
			return key, false
		}
	}
	for _, it := range items {
		for _, spec := range it.parts {
			t, err := l.checkpoint.find(spec)
			if err != nil || it.matrix == nil {
				continue
			}
			typed, at := l.typed(t, it), l.checkpoint.tensors[spec.name]
			fmt.Fprintf(h, "%q %d %d %v %v %d %d\n", spec.name, t.Rows, t.Cols, typed.HeldAs(), t.DType, at.pairedHeads, slices.Index(l.checkpoint.shards, at.shard))
		}
		fmt.Fprintln(h)
	}
	return [32]byte(h.Sum(nil)), true
}

// sample adds pages of data at equal distances, the first and the last among them: a
// file that was written over in place is hardly the same in all of them.
func sample(h hash.Hash, data []byte) {
	const pages, size = 64, 4096
	for i := range pages {
		from := max(len(data)-size, 0) / (pages - 1) * i
		if i == pages-1 {
			from = max(len(data)-size, 0)
		}
		h.Write(data[from:min(from+size, len(data))]) //nolint:errcheck // never fails
	}
}
