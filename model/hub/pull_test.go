package hub_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/internal/testkit/hubkit"
	"github.com/troupe-llm/troupe/model/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const repo = "org/some-model"

// random returns bytes of its own for each length.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	return b
}

const weightBytes = 5<<20 + 77

// files is a repository with what is wanted and what is not.
func files() map[string][]byte {
	return map[string][]byte{
		"config.json": []byte(`{"a":1}`), "generation_config.json": []byte("{}"), "tokenizer.json": random(90_000), "tokenizer_config.json": []byte("{ }"),
		"special_tokens_map.json": []byte("[]"), "chat_template.jinja": []byte("{{ x }}"), "model.safetensors": random(weightBytes),
		"pytorch_model.bin": random(1000), "README.md": []byte("# hi"), ".gitattributes": []byte("x"), "onnx/model.onnx": []byte("x"), "tf_model.h5": nil,
	}
}

var wanted = []string{"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}

// witness records what a Progress is told, and the waits that nobody waits for.
type witness struct {
	mu    sync.Mutex
	notes []string
	waits []time.Duration
	have  map[string]int64 // at Begin
	open  string
}

func (w *witness) Begin(path string, have, _ int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.have[path], w.open = have, path
}
func (w *witness) Advance(int64) {}
func (w *witness) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = ""
}
func (w *witness) Note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, line)
}

func (w *witness) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = append(w.waits, d)
	return ctx.Err()
}

func (w *witness) text() string { return strings.Join(w.notes, "\n") }

// opened returns a client of h with a cache of its own, small ranges and no waits.
func opened(t *testing.T, h *hubkit.Hub, change ...func(*hub.Options)) (*hub.Hub, *witness, string) {
	t.Helper()
	w := &witness{have: map[string]int64{}}
	o := hub.Options{Endpoint: h.URL, CacheDir: t.TempDir(), Progress: w, Sleep: w.sleep, ChunkBytes: 1 << 20, Parallel: 3}
	for _, c := range change {
		c(&o)
	}
	client, err := hub.New(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, w, filepath.Join(o.CacheDir, "models--org--some-model")
}

func name(t *testing.T, s string) hub.Name {
	t.Helper()
	n, ok := hub.ParseName(s)
	require.True(t, ok, s)
	return n
}

func pull(t *testing.T, client *hub.Hub, s string) hub.Snapshot {
	t.Helper()
	got, err := client.Pull(t.Context(), name(t, s))
	require.NoError(t, err)
	return got
}

// holds checks a snapshot against the layout: links to blobs of the right names.
func holds(t *testing.T, cache, commit string, all map[string][]byte, names []string) {
	t.Helper()
	var found []string
	dir := filepath.Join(cache, "snapshots", commit)
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		require.NoError(t, err)
		found = append(found, rel)
		target, err := os.Readlink(p)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("../", 2+strings.Count(rel, "/"))+"blobs/"+hubkit.Hash(rel, all[rel]), target)
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		require.True(t, bytes.Equal(all[rel], b), rel)
		return nil
	}))
	require.ElementsMatch(t, names, found)
	blobs, err := os.ReadDir(filepath.Join(cache, "blobs"))
	require.NoError(t, err)
	for _, b := range blobs {
		require.NotContains(t, b.Name(), "incomplete")
	}
}

func TestPull(t *testing.T) {
	for _, bare := range []bool{false, true} {
		h := hubkit.New(t)
		all := files()
		r := h.Add(repo, all)
		if bare {
			h.HideMetadata()
		}
		client, _, cache := opened(t, h)
		got := pull(t, client, repo)
		require.Equal(t, filepath.Join(cache, "snapshots", r.Commit), got.Path)
		require.Equal(t, len(wanted), got.NumFiles)
		holds(t, cache, r.Commit, all, wanted)
		ref, err := os.ReadFile(filepath.Join(cache, "refs", "main"))
		require.NoError(t, err)
		require.Equal(t, r.Commit, string(ref))
		requests := h.Requests()
		require.EqualValues(t, weightBytes+90_000, hubkit.StoreBytes(requests), "nothing comes twice")
		ranges := 0
		for _, q := range requests {
			if q.OfStore && q.Range != "" {
				ranges++
			}
		}
		require.Equal(t, 6, ranges)

		got = pull(t, client, repo)
		require.Zero(t, got.NumFiles)
		require.Empty(t, hubkit.Downloads(h.Requests()))
		pull(t, client, repo+":"+r.Commit)
		require.Empty(t, h.Requests(), "a commit does not change")
	}
}

func TestSharded(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	delete(all, "model.safetensors")
	all["model-00001-of-00002.safetensors"], all["model-00002-of-00002.safetensors"] = random(1000), random(2000)
	all["consolidated.safetensors"] = random(3000)
	all["model.safetensors.index.json"] = []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`)
	r := h.Add(repo, all)
	client, _, cache := opened(t, h)
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, append(wanted[:3:3], "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json",
		"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"))

	for text, want := range map[string]string{
		`{"weight_map":{"a":"../../../../etc/passwd"}}`:           "is no *.safetensors file of the repository",
		`{"weight_map":{"a":"model-00003-of-00003.safetensors"}}`: "model-00003-of-00003.safetensors",
		`{"weight_map":{}}`: "has no weight_map",
		`{`:                 "has no weight_map",
	} {
		all["model.safetensors.index.json"] = []byte(text)
		h.Add(repo, all)
		_, err := client.Pull(t.Context(), name(t, repo))
		require.ErrorContains(t, err, want)
	}
}

func TestGGUF(t *testing.T) {
	h := hubkit.New(t)
	all := map[string][]byte{
		"M-Q8_0.gguf": random(100), "M-q4_0.gguf": random(101), "M.BF16.gguf": random(102), "sub/M-IQ8_0.gguf": random(103), "mmproj-M-Q8_0.gguf": random(104),
		"M-Q6_K-00001-of-00002.gguf": random(105), "M-Q6_K-00002-of-00002.gguf": random(106), "M-Q3_K-00001-of-00003.gguf": nil, "M-Q2_K-00001-of-09999.gguf": nil, "README.md": random(10),
	}
	r := h.Add(repo, all)
	client, _, cache := opened(t, h)
	for tag, file := range map[string]string{"Q8_0": "M-Q8_0.gguf", "q8_0": "M-Q8_0.gguf", "Q4_0": "M-q4_0.gguf", "bf16": "M.BF16.gguf", "Q6_K": "M-Q6_K-00001-of-00002.gguf", "IQ8_0": "sub/M-IQ8_0.gguf", "M-Q8_0.gguf": "M-Q8_0.gguf"} {
		got := pull(t, client, repo+":"+tag)
		require.Equal(t, filepath.Join(cache, "snapshots", r.Commit, file), got.Path, tag)
		b, err := os.ReadFile(got.Path)
		require.NoError(t, err)
		require.Equal(t, all[file], b)
	}
	second, err := os.ReadFile(filepath.Join(cache, "snapshots", r.Commit, "M-Q6_K-00002-of-00002.gguf"))
	require.NoError(t, err, "a part brings the others with it")
	require.Equal(t, all["M-Q6_K-00002-of-00002.gguf"], second)
	for s, want := range map[string]string{
		repo + ":Q3_K": "M-Q3_K-00001-of-00003.gguf is one of 3 parts, and M-Q3_K-00002-of-00003.gguf is missing",
		repo + ":Q2_K": "M-Q2_K-00001-of-09999.gguf is one of 9999 parts; there must be from 1 to 4096",
		repo + ":Q5_K": "no GGUF file whose name ends with Q5_K; it has M-Q2_K-00001-of-09999.gguf, M-Q3_K-00001-of-00003.gguf, M-Q6_K-00001-of-00002.gguf, M-Q6_K-00002-of-00002.gguf, M-Q8_0.gguf, M-q4_0.gguf, M.BF16.gguf, sub/M-IQ8_0.gguf",
		repo:           "several GGUF files; say which",
	} {
		_, err := client.Pull(t.Context(), name(t, s))
		require.ErrorContains(t, err, want)
	}
	h.Add(repo, map[string][]byte{"pytorch_model.bin": nil, "config.json": nil})
	_, err = client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "no weights that can be loaded, neither model.safetensors nor GGUF files; it has config.json, pytorch_model.bin")
	_, err = client.Pull(t.Context(), name(t, repo+":Q8_0"))
	require.ErrorContains(t, err, "no GGUF files")
}

// pythonCache writes a cache as huggingface_hub leaves it.
func pythonCache(t *testing.T, cache, commit string, all map[string][]byte) {
	t.Helper()
	for _, dir := range []string{"blobs", "refs", "snapshots/" + commit, ".no_exist/" + commit} {
		require.NoError(t, os.MkdirAll(filepath.Join(cache, dir), 0o755))
	}
	for _, f := range wanted {
		hash := hubkit.Hash(f, all[f])
		require.NoError(t, os.WriteFile(filepath.Join(cache, "blobs", hash), all[f], 0o644))
		require.NoError(t, os.Symlink("../../blobs/"+hash, filepath.Join(cache, "snapshots", commit, f)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(cache, ".no_exist", commit, "added_tokens.json"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(cache, "refs", "main"), []byte(commit), 0o644))
}

func TestWhatPythonFetchedIsReused(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	r := h.Add(repo, all)
	client, _, cache := opened(t, h)
	pythonCache(t, cache, r.Commit, all)
	got := pull(t, client, repo)
	require.Zero(t, got.NumFiles)
	requests := h.Requests()
	require.Len(t, requests, 1, "the list")
	holds(t, cache, r.Commit, all, wanted)

	// A commit that differs in one file has that one fetched.
	all["config.json"] = []byte(`{"a":2}`)
	next := h.Add(repo, all)
	require.Equal(t, 1, pull(t, client, repo).NumFiles)
	holds(t, cache, next.Commit, all, wanted)
}

func TestOffline(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	offline := func(o *hub.Options) { o.Offline = true }
	client, _, cache := opened(t, h, offline)
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "HF_HUB_OFFLINE")
	require.ErrorContains(t, err, "not in the cache")
	pythonCache(t, cache, strings.Repeat("ab", 20), all)
	got := pull(t, client, repo)
	require.Equal(t, filepath.Join(cache, "snapshots", strings.Repeat("ab", 20)), got.Path)
	_, err = client.Pull(t.Context(), name(t, repo+":v2"))
	require.ErrorContains(t, err, "not in the cache")
	_, err = client.Pull(t.Context(), name(t, repo+":Q8_0"))
	require.ErrorContains(t, err, "has no GGUF files")
	require.NoError(t, os.Remove(filepath.Join(cache, "blobs", hubkit.Hash("tokenizer.json", all["tokenizer.json"]))))
	_, err = client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "tokenizer.json is missing")
	require.Empty(t, h.Requests())
}

func TestHubThatIsAwayLeavesTheCache(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	r := h.Add(repo, all)
	client, w, cache := opened(t, h)
	h.SetFault(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "502 Bad Gateway")
	pythonCache(t, cache, r.Commit, all)
	require.Equal(t, r.Commit, pull(t, client, repo).Commit)
	require.Contains(t, w.text(), "from the cache")
}
