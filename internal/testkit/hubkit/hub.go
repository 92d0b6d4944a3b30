package hubkit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's hash
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Token is what private repositories want.
const Token = "hf_onlyfortests"

// Signature is in the query of every address of large files.
const Signature = "sig=secret"

// Hub is a hub (URL) and its store of large files (Store.URL).
type Hub struct {
	*httptest.Server
	Store *httptest.Server

	mu       sync.Mutex
	before   Fault
	bare     bool // lists have no sizes and hashes
	repos    map[string]*Repo
	large    map[string][]byte // by hash
	requests []*Request
}

// Fault sees a request before it is answered, and returns true if it has
// answered itself.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// SetFault puts a fault in place of the one before; nil = none.
func (h *Hub) SetFault(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = f
}

// HideMetadata leaves sizes and hashes out of lists from now on.
func (h *Hub) HideMetadata() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bare = true
}

// Repo is a repository with one branch, main.
type Repo struct {
	Commit  string
	Files   map[string][]byte
	Private bool

	hashes map[string]string
}

// Request is what was asked for.
type Request struct {
	Method, Path, Range, Authorization string
	OfStore                            bool
	Bytes                              int64 // of the body of the answer
}

// New starts a hub that ends with the test.
func New(tb testing.TB) *Hub {
	h := &Hub{repos: map[string]*Repo{}, large: map[string][]byte{}}
	h.Server = httptest.NewServer(h.record(false, h.answer))
	h.Store = httptest.NewServer(h.record(true, h.give))
	tb.Cleanup(func() {
		h.Server.CloseClientConnections()
		h.Store.CloseClientConnections()
		h.Server.Close()
		h.Store.Close()
	})
	return h
}

// Add makes a repository of files.
func (h *Hub) Add(name string, files map[string][]byte) *Repo {
	r := &Repo{Files: maps.Clone(files), hashes: map[string]string{}}
	sum := sha1.New() //nolint:gosec // git's hash
	fmt.Fprint(sum, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range sorted(files) {
		r.hashes[f] = Hash(f, files[f])
		fmt.Fprint(sum, f, r.hashes[f])
		if IsLarge(f) {
			h.large[r.hashes[f]] = files[f]
		}
	}
	r.Commit = hex.EncodeToString(sum.Sum(nil))
	h.repos[name] = r
	return r
}

// AddFolder makes a repository of the files of a folder.
func (h *Hub) AddFolder(tb testing.TB, name, dir string) *Repo {
	tb.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(tb, err)
	}
	return h.Add(name, files)
}

// IsLarge reports whether a file is kept in the store, as git-lfs does.
func IsLarge(name string) bool {
	return slices.Contains([]string{".safetensors", ".gguf", ".bin"}, path.Ext(name)) || name == "tokenizer.json"
}

// Hash returns the name of the file's blob: SHA-256 of large ones, git's hash of others.
func Hash(name string, b []byte) string {
	if IsLarge(name) {
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:])
	}
	s := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(b), b)) //nolint:gosec // git's hash
	return hex.EncodeToString(s[:])
}

// Requests returns what was asked for since the last call.
func (h *Hub) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Request
	for _, r := range h.requests {
		all = append(all, *r)
	}
	h.requests = nil
	return all
}

// Downloads returns the requests for files, of the hub's own and of the store's.
func Downloads(requests []Request) (files []Request) {
	for _, r := range requests {
		if r.OfStore || r.Method == http.MethodGet && strings.Contains(r.Path, "/resolve/") && r.Bytes > 0 {
			files = append(files, r)
		}
	}
	return files
}

// StoreBytes returns how many bytes of large files were given.
func StoreBytes(requests []Request) (n int64) {
	for _, r := range requests {
		if r.OfStore {
			n += r.Bytes
		}
	}
	return n
}

// counter counts bytes before they are sent: who has received them finds them counted.
type counter struct {
	http.ResponseWriter
	mu *sync.Mutex
	r  *Request
}

func (c *counter) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.r.Bytes += int64(len(b))
	c.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (h *Hub) record(ofStore bool, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seen := &Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range"), Authorization: r.Header.Get("Authorization"), OfStore: ofStore}
		h.mu.Lock()
		h.requests = append(h.requests, seen)
		before := h.before
		h.mu.Unlock()
		c := &counter{ResponseWriter: w, mu: &h.mu, r: seen}
		if before == nil || !before(c, r) {
			next(c, r)
		}
	}
}

// OfStore reports whether a request that a fault sees is one of the store's.
func (h *Hub) OfStore(r *http.Request) bool { return "http://"+r.Host == h.Store.URL }

func (h *Hub) answer(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 6 && parts[0] == "api" && parts[1] == "models" && parts[4] == "revision":
		if repo := h.repo(w, r, parts[2]+"/"+parts[3], strings.Join(parts[5:], "/")); repo != nil {
			h.list(w, repo)
		}
	case len(parts) >= 5 && parts[2] == "resolve":
		if repo := h.repo(w, r, parts[0]+"/"+parts[1], parts[3]); repo != nil {
			h.resolve(w, r, repo, strings.Join(parts[4:], "/"))
		}
	default:
		refuse(w, http.StatusNotFound, "")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	http.Error(w, "no", status)
}

// repo finds a repository at a revision, or refuses.
func (h *Hub) repo(w http.ResponseWriter, r *http.Request, name, revision string) *Repo {
	h.mu.Lock()
	repo := h.repos[name]
	h.mu.Unlock()
	switch {
	case repo == nil || repo.Private && r.Header.Get("Authorization") == "":
		refuse(w, http.StatusUnauthorized, "")
	case repo.Private && r.Header.Get("Authorization") != "Bearer "+Token:
		refuse(w, http.StatusUnauthorized, "")
	case revision != "main" && revision != repo.Commit:
		refuse(w, http.StatusNotFound, "RevisionNotFound")
	default:
		return repo
	}
	return nil
}

func (h *Hub) list(w http.ResponseWriter, repo *Repo) {
	h.mu.Lock()
	bare := h.bare
	h.mu.Unlock()
	siblings := []map[string]any{}
	for _, name := range sorted(repo.Files) {
		s := map[string]any{"rfilename": name}
		if !bare {
			n := len(repo.Files[name])
			s["size"], s["blobId"] = n, strings.Repeat("0", 40)
			if IsLarge(name) {
				s["lfs"] = map[string]any{"sha256": repo.hashes[name], "size": n, "pointerSize": 134}
			} else {
				s["blobId"] = repo.hashes[name]
			}
		}
		siblings = append(siblings, s)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"sha": repo.Commit, "siblings": siblings})
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, repo *Repo, name string) {
	content, ok := repo.Files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	hash := repo.hashes[name]
	if !IsLarge(name) {
		w.Header().Set("ETag", `"`+hash+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+hash+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
	w.Header().Set("Location", h.Store.URL+"/"+url.PathEscape(hash)+"?"+Signature)
	w.WriteHeader(http.StatusFound)
}

// give serves a large file, with ranges.
func (h *Hub) give(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	content := h.large[strings.TrimPrefix(r.URL.Path, "/")]
	h.mu.Unlock()
	if content == nil || r.URL.RawQuery != Signature {
		refuse(w, http.StatusForbidden, "")
		return
	}
	w.Header().Set("ETag", `"of-the-store"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func sorted(files map[string][]byte) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
