package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/troupe-llm/troupe/infer"
)

// maxFileBytes bounds a file that is read whole: tokenizers of the largest
// vocabularies are near 35 MB.
const maxFileBytes = 256 << 20

// Folder is a model folder in the Hugging Face layout, on disk or in the
// binary, or a GGUF file in its place. It is safe for concurrent use and holds
// no open file.
type Folder struct {
	name  string            // for people and for errors: the path, or the built-in model's name
	dir   string            // on disk, "" if built in
	files map[string]string // built in, nil if on disk
	gguf  string            // path of the GGUF file whose metadata stands for the files, "" if there is none
}

// OpenDir opens a folder on disk, or a GGUF file, which may be alone in a folder.
// The error says what path is instead, if it is none of these.
func OpenDir(path string) (*Folder, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, infer.Errorf(infer.CodeInvalid, "model", "model folder %q does not exist, nor is that a name of a hub, such as ORG/NAME", path)
	case err != nil:
		return nil, &infer.Error{Code: infer.CodeInvalid, Param: "model",
			Message: fmt.Sprintf("model folder %q cannot be opened: %v", path, err), Err: err}
	case !info.IsDir() && strings.HasSuffix(strings.ToLower(path), ggufSuffix):
		return &Folder{name: path, gguf: path}, nil
	case !info.IsDir():
		return nil, infer.Errorf(infer.CodeInvalid, "model",
			"%q is a file; give a *.gguf file or the folder that holds config.json and *.safetensors", path)
	}
	f := &Folder{name: path, dir: path}
	f.gguf, err = f.onlyGGUF()
	return f, err
}

// Embedded makes a folder of files that are part of the binary. The contents
// are strings because the bytes of a go:embed string lie in the executable's
// read-only pages: a weight file is used in place, without a copy in the Go heap.
func Embedded(name string, files map[string]string) *Folder {
	return &Folder{name: name, files: files}
}

// Name returns the path, or the name of a built-in model.
func (f *Folder) Name() string { return f.name }

// File returns a small file (tokenizer.json, chat_template.jinja, …) as bytes
// of the caller's own. A missing file gives an error that wraps fs.ErrNotExist,
// one over 256 MiB is refused, and one that is plainly something else than a
// file of a model is named for what it is.
func (f *Folder) File(name string) ([]byte, error) {
	if f.gguf != "" {
		return f.fileOfGGUF(name)
	}
	if f.files != nil {
		s, ok := f.files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: f.name + "/" + name, Err: fs.ErrNotExist}
		}
		return []byte(s), nil
	}
	b, err := readBounded(filepath.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	if what := impostor(b); what != "" {
		return nil, infer.Errorf(infer.CodeInvalid, name, "%s: %s", filepath.Join(f.dir, name), what)
	}
	return b, nil
}

// impostor says what commonly comes in place of a text file of a model, and what
// to do about it; "" if b is none of that.
func impostor(b []byte) string {
	head := bytes.ToLower(bytes.TrimLeft(b[:min(len(b), 64)], "\xef\xbb\xbf \t\r\n"))
	switch {
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return "this is a git-lfs pointer, not the file itself: run `git lfs pull` in the model folder"
	case bytes.HasPrefix(head, []byte("<!doctype")), bytes.HasPrefix(head, []byte("<html")):
		return "this is an HTML page, not the file itself: download it again"
	}
	return ""
}

// Has reports whether the folder holds a file of that name.
func (f *Folder) Has(name string) bool {
	if f.gguf != "" {
		return fromGGUF[name] != nil
	}
	if f.files != nil {
		_, ok := f.files[name]
		return ok
	}
	info, err := os.Stat(filepath.Join(f.dir, name))
	return err == nil && info.Mode().IsRegular()
}

// list returns the names of the folder's files, sorted.
func (f *Folder) list() []string {
	var names []string
	for name := range f.files {
		names = append(names, name)
	}
	if f.files == nil {
		entries, err := os.ReadDir(f.dir)
		if err != nil {
			return nil // only used to make an error more helpful
		}
		for _, e := range entries {
			if !e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}

// mapFile makes a file's bytes readable in place.
func (f *Folder) mapFile(name string) (*mapping, error) {
	if f.files != nil {
		s, ok := f.files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: f.name + "/" + name, Err: fs.ErrNotExist}
		}
		return &mapping{data: readOnlyBytes(s)}, nil
	}
	return openMapping(filepath.Join(f.dir, name))
}

// readOnlyBytes views a string as bytes without copying. Writing to the result
// would fault; it only goes to readers of [compute.RawTensor].
func readOnlyBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// openRegular opens a file. Anything but a regular one is refused: opening a pipe
// waits for its writer, perhaps for ever.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, infer.Errorf(infer.CodeInvalid, filepath.Base(path), "%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil { // of the file that was opened
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func readBounded(path string) ([]byte, error) {
	file, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFileBytes {
		return nil, infer.Errorf(infer.CodeInvalid, filepath.Base(path),
			"%s is larger than the limit of %d bytes", path, maxFileBytes)
	}
	return b, nil
}

// isLocalName reports whether name is a plain file name: an index must not
// reach outside its folder.
func isLocalName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}
