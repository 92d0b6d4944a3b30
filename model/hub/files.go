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
	gguf    string // path of the GGUF file, or of the first of its parts; "" = safetensors
}

// smallFiles has the files that are read beside the weights.
var smallFiles = []string{"config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json", "chat_template*"}

// choose picks the files that the loader reads: of safetensors those at the top
// of the repository, of GGUF one file or all its parts. No other form of the weights is fetched.
func choose(n Name, files []File) (choice, error) {
	c := choice{}
	single, index := find(files, singleFile), find(files, indexFile)
	if n.File != "" || single == nil && index == nil {
		parts, err := chooseGGUF(n, files)
		if err != nil {
			return c, err
		}
		return choice{weights: parts, gguf: parts[0].Path}, nil
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
