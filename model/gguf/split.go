package gguf

import (
	"fmt"
	"regexp"
	"strconv"
)

// MaxParts bounds the files that a model may be split into.
const MaxParts = 4096

var partName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})(?i:\.gguf)$`)

// PartNames returns the names of all parts of a model that is split into several
// files, given that of any of them: NAME-00001-of-00003.gguf and so on, as
// llama.cpp's gguf-split has them. nil if name is none of these.
func PartNames(name string) []string {
	m := partName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	no, _ := strconv.Atoi(m[2]) // five digits
	count, _ := strconv.Atoi(m[3])
	if no < 1 || no > count || count > MaxParts {
		return nil
	}
	suffix := name[len(name)-len(".gguf"):]
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d%s", m[1], i+1, count, suffix)
	}
	return names
}

// CheckPart verifies that the file says of itself that it is part no, from 0 on, of
// count. One file that says nothing is whole.
func (f *File) CheckPart(no, count int) error {
	gotCount, err := f.splitKey("split.count", 1)
	if err != nil {
		return err
	}
	gotNo, err := f.splitKey("split.no", 0)
	switch {
	case err != nil:
		return err
	case gotCount != int64(count) && count == 1:
		return f.fault("is one of %d parts, but its name does not say so: parts are named NAME-00001-of-%05d.gguf and so on, in one folder", gotCount, gotCount)
	case gotCount != int64(count) || gotNo != int64(no):
		return f.fault("says that it is part %d of %d, but its name says part %d of %d: it was renamed, or belongs to another model", gotNo+1, gotCount, no+1, count)
	}
	return nil
}

func (f *File) splitKey(key string, missing int64) (int64, error) {
	v, ok := f.Key(key)
	if !ok {
		return missing, nil
	}
	n, isInt := v.Int()
	if !isInt || n < 0 || n >= 1<<16 {
		return 0, f.fault("metadata key %q must be an integer from 0 to 65535", key)
	}
	return n, nil
}

// Join adds the tensors of the file's other parts, which are in their order. Each of
// them must say its place; together they have the tensors that the first claims.
func (f *File) Join(others []*File) error {
	all := append([]*File{f}, others...)
	for i, part := range all {
		if err := part.CheckPart(i, len(all)); err != nil {
			return err
		}
	}
	for i, part := range others {
		for _, t := range part.tensors {
			if first, twice := f.byName[t.Name]; twice {
				return part.fault("tensor %q is in %s, too", clip([]byte(t.Name)), all[f.tensors[first].Part].name)
			}
			t.Part = i + 1
			f.byName[t.Name] = len(f.tensors)
			f.tensors = append(f.tensors, t)
		}
	}
	if len(f.tensors) > maxTensors {
		return f.fault("has %d tensors with its other parts; the limit is %d", len(f.tensors), maxTensors)
	}
	want, err := f.count()
	if err == nil && want >= 0 && want != int64(len(f.tensors)) {
		err = f.fault("metadata key \"split.tensors.count\" is %d, but the %d parts have %d tensors: they belong to different models", want, len(all), len(f.tensors))
	}
	return err
}

// count returns the tensors that all parts are said to have, -1 if nothing is said.
func (f *File) count() (int64, error) {
	v, ok := f.Key("split.tensors.count")
	if !ok {
		return -1, nil
	}
	n, isInt := v.Int()
	if !isInt || n < 0 {
		return 0, f.fault("metadata key \"split.tensors.count\" must be an integer that is not negative")
	}
	return n, nil
}
