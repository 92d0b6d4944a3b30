package hub

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// ggufShard is how the name of a part ends: which of how many it is.
var ggufShard = regexp.MustCompile(`(?i)-([0-9]{5})-of-([0-9]{5})(\.gguf)$`)

// chooseGGUF returns the GGUF file that the name means, or all parts of it.
func chooseGGUF(n Name, files []File) ([]File, error) {
	var all, wanted []File
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Path))
		// mmproj and imatrix files stand beside models and are none.
		if !strings.HasSuffix(base, ggufSuffix) || strings.HasPrefix(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		all = append(all, f)
		if endsWith(base, n.File) {
			wanted = append(wanted, f)
		}
	}
	switch models := distinct(wanted); {
	case len(all) == 0 && n.File != "":
		return nil, invalid("%s has no GGUF files; it has %s", n.Repo, paths(files))
	case len(all) == 0:
		return nil, invalid("%s has no weights that can be loaded, neither %s nor GGUF files; it has %s", n.Repo, singleFile, paths(files))
	case len(wanted) == 0:
		return nil, invalid("%s has no GGUF file whose name ends with %s; it has %s", n.Repo, n.File, paths(all))
	case len(models) > 1 && n.File != "":
		return nil, invalid("%s has several GGUF files whose name ends with %s; give more of the name: %s", n.Repo, n.File, paths(models))
	case len(models) > 1:
		return nil, invalid("%s has several GGUF files; say which, as in %s:Q8_0: %s", n.Repo, n.Repo, paths(models))
	}
	return partsOf(n, wanted[0], files)
}

// distinct leaves one file of each model: of parts the first that is listed.
func distinct(files []File) []File {
	var models []File
	seen := map[string]bool{}
	for _, f := range files {
		model := ggufShard.ReplaceAllString(f.Path, "-of-$2$3")
		if !seen[model] {
			seen[model] = true
			models = append(models, f)
		}
	}
	return models
}

// partsOf returns all files of the model that f is a part of, in order.
func partsOf(n Name, f File, files []File) ([]File, error) {
	m := ggufShard.FindStringSubmatch(f.Path)
	if m == nil {
		return []File{f}, nil
	}
	count, _ := strconv.Atoi(m[2]) // five digits
	if count < 1 || count > maxShards {
		return nil, invalid("%s: %s is one of %d parts; there must be from 1 to %d", n.Repo, f.Path, count, maxShards)
	}
	var parts []File
	for i := range count {
		name := fmt.Sprintf("%s-%05d-of-%s%s", strings.TrimSuffix(f.Path, m[0]), i+1, m[2], m[3])
		part := find(files, name)
		if part == nil {
			return nil, invalid("%s: %s is one of %d parts, and %s is missing", n.Repo, f.Path, count, name)
		}
		parts = append(parts, *part)
	}
	return parts, nil
}

// endsWith reports whether a file's name, in lower case, ends with what was asked
// for, as a word of its own. The number of a part does not count.
func endsWith(base, want string) bool {
	stem := strings.TrimSuffix(ggufShard.ReplaceAllString(base, ggufSuffix), ggufSuffix)
	rest, ok := strings.CutSuffix(stem, strings.TrimSuffix(strings.ToLower(want), ggufSuffix))
	return ok && (rest == "" || want == "" || strings.ContainsRune("-._", rune(rest[len(rest)-1])))
}
