package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const maxRefBytes = 256

// cache is a repository's folder in the cache.
type cache struct {
	dir   string // models--ORG--NAME
	locks string
}

func (h *Hub) cacheOf(repo string) cache {
	name := "models--" + strings.ReplaceAll(repo, "/", "--")
	return cache{dir: filepath.Join(h.o.CacheDir, name), locks: filepath.Join(h.o.CacheDir, ".locks", name)}
}

func (c cache) blob(hash string) string       { return filepath.Join(c.dir, "blobs", hash) }
func (c cache) snapshot(commit string) string { return filepath.Join(c.dir, "snapshots", commit) }
func (c cache) ref(revision string) string {
	return filepath.Join(c.dir, "refs", filepath.FromSlash(revision))
}

// has reports whether a file's content is there, and complete as far as its size tells.
func (c cache) has(f File) bool {
	info, err := os.Stat(c.blob(f.Hash))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// missing returns how many bytes of a file are yet to come.
func (c cache) missing(f File) int64 {
	if c.has(f) {
		return 0
	}
	info, err := os.Stat(c.blob(f.Hash) + incomplete)
	if err != nil || info.Size() > f.Size {
		return f.Size
	}
	return f.Size - info.Size()
}

// link puts a file of the blobs into a snapshot.
func (c cache) link(commit string, f File) error {
	at := filepath.Join(c.snapshot(commit), filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	up := strings.Repeat("../", 2+strings.Count(f.Path, "/"))
	target := filepath.FromSlash(up + "blobs/" + f.Hash)
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil
	}
	// Made aside and moved: whoever reads the snapshot never finds it without the file.
	aside := beside(at)
	err := os.Symlink(target, aside)
	if err != nil { // some file systems have no symbolic links
		err = os.Link(c.blob(f.Hash), aside)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(aside, at), removeIfThere(aside))
}

// beside returns a name in the same folder that nobody else takes.
func beside(name string) string {
	return fmt.Sprintf("%s.%016x%s", name, rand.Uint64(), incomplete)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setRef notes which commit a revision is.
func (c cache) setRef(revision, commit string) error {
	at := c.ref(revision)
	if revision == commit {
		return nil
	}
	if now, err := readSmall(at, maxRefBytes); err == nil && string(now) == commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	aside := beside(at)
	if err := os.WriteFile(aside, []byte(commit), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, at)
}

// commit returns the commit that a revision was when it was fetched last.
func (c cache) commit(revision string) (string, bool) {
	if commitOK.MatchString(revision) {
		return revision, true
	}
	b, err := readSmall(c.ref(revision), maxRefBytes)
	commit := strings.TrimSpace(string(b))
	return commit, err == nil && commitOK.MatchString(commit)
}

// find looks for the files of a name in the cache. The error says what is missing.
func (c cache) find(n Name) (Snapshot, error) {
	commit, ok := c.commit(n.revision())
	if !ok {
		return Snapshot{}, fmt.Errorf("it is not in the cache (%s)", c.dir)
	}
	dir := c.snapshot(commit)
	files := listFolder(dir)
	chosen, err := choose(n, files)
	if err != nil {
		return Snapshot{}, fmt.Errorf("the cache has not all of it: %w", err)
	}
	if chosen.gguf != "" {
		return Snapshot{Path: filepath.Join(dir, filepath.FromSlash(chosen.gguf)), Commit: commit}, nil
	}
	if chosen.index {
		index, err := readSmall(filepath.Join(dir, indexFile), maxIndexBytes)
		if err == nil {
			_, err = shards(index, files)
		}
		if err != nil {
			return Snapshot{}, fmt.Errorf("the cache has not all of it: %w", err)
		}
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if find(files, name) == nil {
			return Snapshot{}, fmt.Errorf("the cache has not all of it: %s is missing in %s", name, dir)
		}
	}
	return Snapshot{Path: dir, Commit: commit}, nil
}

// listFolder lists the regular files of a snapshot, links to them included and
// links to nothing left out.
func listFolder(dir string) []File {
	var files []File
	_ = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && strings.Count(name, "/") >= maxPathDepth {
				return fs.SkipDir
			}
			return nil // what cannot be read is not there
		}
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			files = append(files, File{Path: path.Clean(name), Size: info.Size()})
		}
		return nil
	})
	return files
}

func readSmall(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, limit)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, limit))
}
