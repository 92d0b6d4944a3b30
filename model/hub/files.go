package hub

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// Limits of what a repository may hold.
const (
	maxFiles      = 20_000
	maxPathBytes  = 1024
	maxPartBytes  = 255
	maxPathDepth  = 8
	maxFileSize   = 1 << 43 // bytes
	maxIndexBytes = 64 << 20
	maxShards     = 4096
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	ggufSuffix = ".gguf"
)

// File is a file of a repository.
type File struct {
	Path string // in the repository, with slashes
	Size int64  // bytes
	Hash string // hex: SHA-256 of the content, or the SHA-1 that git gives the blob; "" = not known yet
}

var hashOK = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// reserved are the names that are devices on Windows, whatever follows a dot.
var reserved = regexp.MustCompile(`(?i)^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?$`)

// isSafePath reports whether a path of the network's may become one below a
// folder of ours.
func isSafePath(s string) bool {
	if len(s) > maxPathBytes || !utf8.ValidString(s) || strings.ContainsAny(s, "\\:*?\"<>|") || strings.ContainsFunc(s, unicode.IsControl) {
		return false
	}
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" || len(p) > maxPartBytes || strings.Trim(p, ".") == "" || strings.HasSuffix(p, ".") || strings.HasSuffix(p, " ") || reserved.MatchString(p) {
			return false
		}
	}
	return len(parts) <= maxPathDepth
}

// choice is what of a repository is fetched.
type choice struct {
	small   []File // what is read beside the weights
	weights []File
	index   bool   // small has the index of the shards, which the weights are
	gguf    string // path of the one GGUF file, "" = safetensors
}

// smallFiles has the files that are read beside the weights.
var smallFiles = []string{"config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json", "chat_template*"}

// choose picks the files that the loader reads: of safetensors those at the top
// of the repository, of GGUF one file. No other form of the weights is fetched.
func choose(n Name, files []File) (choice, error) {
	c := choice{}
	single, index := find(files, singleFile), find(files, indexFile)
	if n.File != "" || single == nil && index == nil {
		f, err := chooseGGUF(n, files)
		if err != nil {
			return c, err
		}
		return choice{weights: []File{f}, gguf: f.Path}, nil
	}
	for _, f := range files {
		for _, pattern := range smallFiles {
			if ok, err := path.Match(pattern, f.Path); err == nil && ok {
				c.small = append(c.small, f)
				break
			}
		}
	}
	if single != nil {
		c.weights = []File{*single}
		return c, nil
	}
	c.small, c.index = append(c.small, *index), true
	return c, nil
}

func find(files []File, path string) *File {
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	return &files[i]
}

var ggufShard = regexp.MustCompile(`(?i)-[0-9]{5}-of-[0-9]{5}\.gguf$`)

// chooseGGUF returns the GGUF file that the name means.
func chooseGGUF(n Name, files []File) (File, error) {
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
	switch {
	case len(all) == 0 && n.File != "":
		return File{}, invalid("%s has no GGUF files; it has %s", n.Repo, paths(files))
	case len(all) == 0:
		return File{}, invalid("%s has no weights that can be loaded, neither %s nor GGUF files; it has %s", n.Repo, singleFile, paths(files))
	case len(wanted) == 0:
		return File{}, invalid("%s has no GGUF file whose name ends with %s; it has %s", n.Repo, n.File, paths(all))
	case !slices.ContainsFunc(wanted, isOnePiece):
		return File{}, invalid("%s: %s is one of several parts; GGUF files in parts cannot be loaded", n.Repo, wanted[0].Path)
	case len(wanted) > 1 && n.File != "":
		return File{}, invalid("%s has several GGUF files whose name ends with %s; give more of the name: %s", n.Repo, n.File, paths(wanted))
	case len(wanted) > 1:
		return File{}, invalid("%s has several GGUF files; say which, as in %s:Q8_0: %s", n.Repo, n.Repo, paths(wanted))
	}
	return wanted[0], nil
}

func isOnePiece(f File) bool { return !ggufShard.MatchString(f.Path) }

// endsWith reports whether a file's name, in lower case, ends with what was asked
// for, as a word of its own. The number of a part does not count.
func endsWith(base, want string) bool {
	stem := strings.TrimSuffix(ggufShard.ReplaceAllString(base, ggufSuffix), ggufSuffix)
	rest, ok := strings.CutSuffix(stem, strings.TrimSuffix(strings.ToLower(want), ggufSuffix))
	return ok && (rest == "" || want == "" || strings.ContainsRune("-._", rune(rest[len(rest)-1])))
}

// shards returns the files that an index names, out of those there are.
func shards(index []byte, files []File) ([]File, error) {
	var parsed struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil || len(parsed.WeightMap) == 0 {
		return nil, invalid("%s has no weight_map that maps tensors to files", indexFile)
	}
	names := map[string]bool{}
	for _, name := range parsed.WeightMap {
		names[name] = true
	}
	if len(names) > maxShards {
		return nil, invalid("%s names %d files; the limit is %d", indexFile, len(names), maxShards)
	}
	var found []File
	for name := range names {
		f := find(files, name)
		if f == nil || !strings.HasSuffix(name, ".safetensors") || strings.Contains(name, "/") {
			return nil, invalid("%s sends tensors to %q, which is no *.safetensors file of the repository", indexFile, name)
		}
		found = append(found, *f)
	}
	slices.SortFunc(found, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// paths lists files for an error.
func paths(files []File) string {
	const most = 24
	if len(files) == 0 {
		return "no files"
	}
	var names []string
	for _, f := range files[:min(len(files), most)] {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	if n := len(files) - most; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

func invalid(format string, args ...any) error {
	return infer.Errorf(infer.CodeInvalid, "model", format, args...)
}
