package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/hubkit"
	"github.com/troupe-llm/troupe/model/hub"
)

// cut gives the beginning of what was asked for, and breaks the connection.
func cut(w http.ResponseWriter, r *http.Request, content []byte, n int) {
	var first, last int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err == nil {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	}
	_, _ = w.Write(content[first:min(first+n, len(content))])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// faulty is a hub with a fault in its store, for the weights only.
func faulty(t *testing.T, fault func(h *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool) (*hubkit.Hub, *hubkit.Repo, map[string][]byte) {
	h := hubkit.New(t)
	all := files()
	r := h.Add(repo, all)
	hash := hubkit.Hash("model.safetensors", all["model.safetensors"])
	h.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		return h.OfStore(r) && strings.HasSuffix(r.URL.Path, hash) && fault(h, w, r)
	})
	return h, r, all
}

func TestCutConnections(t *testing.T) {
	var n atomic.Int32
	var all map[string][]byte
	h, r, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1)%2 == 1 {
			cut(w, r, all["model.safetensors"], 300_000)
		}
		return false
	})
	client, w, cache := opened(t, h)
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, wanted)
	require.NotEmpty(t, w.waits)
	require.Less(t, hubkit.StoreBytes(h.Requests()), int64(weightBytes+90_000+20*300_000), "what has come does not come again")
}

func TestServerWithoutRanges(t *testing.T) {
	var n atomic.Int32
	var all map[string][]byte
	h, r, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) == 3 {
			r.Header.Del("Range")
			cut(w, r, all["model.safetensors"], 2_000_000)
		}
		r.Header.Del("Range")
		return false
	})
	client, _, cache := opened(t, h)
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, wanted)
}

func TestServerWithoutRangesThatAlwaysBreaks(t *testing.T) {
	var all map[string][]byte
	h, _, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		cut(w, r, all["model.safetensors"], 1_500_000)
		return true
	})
	client, _, cache := opened(t, h)
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "no ranges")
	require.NoDirExists(t, filepath.Join(cache, "refs"), "the revision is not there")
}

func TestWrongContent(t *testing.T) {
	wrong := random(weightBytes + 1)[:weightBytes]
	var n atomic.Int32
	limit := int32(1 << 30)
	h, r, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) > atomic.LoadInt32(&limit) {
			return false
		}
		w.Header().Set("ETag", `"wrong"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wrong))
		return true
	})
	client, witness, cache := opened(t, h)
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "the hub says "+hubkit.Hash("model.safetensors", all["model.safetensors"]))
	require.NoFileExists(t, filepath.Join(cache, "snapshots", r.Commit, "model.safetensors"))

	n.Store(0)
	atomic.StoreInt32(&limit, 6)
	pull(t, client, repo)
	require.Contains(t, witness.text(), "fetching it once more")
	holds(t, cache, r.Commit, all, wanted)
}

func TestSmallFileWithTheWrongHash(t *testing.T) {
	h := hubkit.New(t)
	h.Add(repo, files())
	h.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/config.json") {
			return false
		}
		_, _ = w.Write([]byte(`{"a":3}`))
		return true
	})
	client, _, _ := opened(t, h)
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "config.json: what came has the hash")
}

// What an earlier process left is the beginning of the file, or is found not to be.
func TestResume(t *testing.T) {
	for kind, start := range map[string]int{"beginning": 2_500_000, "all": weightBytes, "wrong": 1_000_000, "too long": weightBytes + 1} {
		h := hubkit.New(t)
		all := files()
		r := h.Add(repo, all)
		client, _, cache := opened(t, h)
		require.NoError(t, os.MkdirAll(filepath.Join(cache, "blobs"), 0o755))
		there := append([]byte(nil), append(all["model.safetensors"], 0)[:start]...)
		if kind == "wrong" {
			there[17]++
		}
		require.NoError(t, os.WriteFile(filepath.Join(cache, "blobs", hubkit.Hash("model.safetensors", all["model.safetensors"])+".incomplete"), there, 0o644))
		pull(t, client, repo)
		holds(t, cache, r.Commit, all, wanted)
		want := map[string]int{"beginning": weightBytes - start, "all": 0, "wrong": weightBytes - start + weightBytes, "too long": weightBytes}[kind]
		require.EqualValues(t, want+90_000, hubkit.StoreBytes(h.Requests()), kind)
	}
}

// A pull that is given up leaves the beginning of the file, for the next one.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all map[string][]byte
	h, r, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(weightBytes))
		_, _ = w.Write(all["model.safetensors"][:2<<20])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	})
	watch := &canceller{witness: witness{have: map[string]int64{}}, cancel: cancel, at: 1 << 20}
	client, _, cache := opened(t, h, func(o *hub.Options) { o.Progress, o.ChunkBytes = watch, 64<<20 })
	_, err := client.Pull(ctx, name(t, repo))
	require.ErrorIs(t, err, context.Canceled)
	info, err := os.Stat(filepath.Join(cache, "blobs", hubkit.Hash("model.safetensors", all["model.safetensors"])+".incomplete"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, info.Size(), int64(1<<20))
	h.SetFault(nil)
	h.Requests()
	pull(t, client, repo)
	require.EqualValues(t, weightBytes-info.Size(), hubkit.StoreBytes(h.Requests()))
	holds(t, cache, r.Commit, all, wanted)
}

type canceller struct {
	witness
	cancel func()
	at     int64
}

func (c *canceller) Advance(have int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have >= c.at && c.open == "model.safetensors" {
		c.cancel()
	}
}

func TestSilentServer(t *testing.T) {
	var n atomic.Int32
	h, r, all := faulty(t, func(_ *hubkit.Hub, _ http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) == 1 {
			<-r.Context().Done()
			return true
		}
		return false
	})
	client, _, cache := opened(t, h, func(o *hub.Options) { o.StallTimeout = 300 * time.Millisecond })
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, wanted)
}

// Signed addresses expire in the middle: the hub is asked for new ones.
func TestExpiredAddress(t *testing.T) {
	var n atomic.Int32
	h, r, all := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1) == 4 {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	client, _, cache := opened(t, h)
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, wanted)
}

func TestContentOfAnotherSize(t *testing.T) {
	for _, by := range []int{-1, 1} {
		for _, chunk := range []int64{1 << 20, 64 << 20} {
			h, _, _ := faulty(t, func(_ *hubkit.Hub, w http.ResponseWriter, r *http.Request) bool {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(random(weightBytes+by)))
				return true
			})
			client, _, cache := opened(t, h, func(o *hub.Options) { o.ChunkBytes = chunk })
			_, err := client.Pull(t.Context(), name(t, repo))
			require.ErrorContains(t, err, "model.safetensors")
			require.NoDirExists(t, filepath.Join(cache, "refs"))
		}
	}
}

func TestRefusals(t *testing.T) {
	answer := func(status int, header ...string) hubkit.Fault {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			return true
		}
	}
	for _, tt := range []struct {
		fault hubkit.Fault
		want  string
		tries int
	}{
		{answer(401), "needs a token in HF_TOKEN", 1},
		{answer(401, "X-Error-Code", "GatedRepo"), "is gated: accept its conditions at http", 1},
		{answer(403), "the token may not read it", 1},
		{answer(404), "there is no such model", 1},
		{answer(404, "X-Error-Code", "RevisionNotFound"), `has no revision "main"`, 1},
		{answer(429, "Retry-After", "7"), "too many requests", 3},
		{answer(429, "Retry-After", "86400"), "too many requests", 1},
		{answer(500), "500 Internal Server Error", 3},
		{answer(503), "503 Service Unavailable", 3},
		{answer(302), "redirects to nowhere", 1},
		{answer(302, "Location", "file:///etc/passwd"), `redirects to a "file" address`, 1},
		{answer(302, "Location", "/around"), "redirects more than 5 times", 6},
		{answer(200), "does not answer as a hub does", 1},
		{func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"sha":"../../x","siblings":[]}`))
			return true
		}, "names no commit", 1},
		{func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = fmt.Fprintf(w, `{"sha":"%040d","siblings":[%s{}]}`, 0, strings.Repeat("{},", 20_000))
			return true
		}, "the limit is 20000", 1},
		{func(w http.ResponseWriter, _ *http.Request) bool {
			for range 33 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
			return true
		}, "answers with more than", 1},
	} {
		h := hubkit.New(t)
		h.Add(repo, files())
		h.SetFault(tt.fault)
		client, w, _ := opened(t, h, func(o *hub.Options) { o.Attempts = 3 })
		_, err := client.Pull(t.Context(), name(t, repo))
		require.ErrorContains(t, err, tt.want)
		var coded *infer.Error
		require.ErrorAs(t, err, &coded)
		require.Len(t, h.Requests(), tt.tries, tt.want)
		if strings.Contains(tt.want, "too many") && tt.tries > 1 {
			require.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, w.waits)
		}
	}
}

// Names that would leave the snapshot are never written, and not missed.
func TestHostileNames(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	for _, bad := range []string{"../tokenizer.json", "/tokenizer2.json", "tokenizer/../../x", "tokenizer\x00", `tokenizer\x`, "tokenizer:x", "aux", "tokenizer.", strings.Repeat("tokenizer", 50)} {
		all[bad] = []byte("bad")
	}
	r := h.Add(repo, all)
	client, _, cache := opened(t, h)
	pull(t, client, repo)
	holds(t, cache, r.Commit, all, wanted)
}

func TestToken(t *testing.T) {
	h := hubkit.New(t)
	h.Add(repo, files()).Private = true
	client, _, _ := opened(t, h)
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "HF_TOKEN")
	h.Requests()
	client, w, _ := opened(t, h, func(o *hub.Options) { o.Token = hubkit.Token })
	pull(t, client, repo)
	for _, r := range h.Requests() {
		require.Equal(t, r.OfStore, r.Authorization == "", "the token is for the hub alone: %s", r.Path)
	}
	wrong, _, _ := opened(t, h, func(o *hub.Options) { o.Token = "hf_wrongwrong" })
	_, err = wrong.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "the token is not valid")
	require.NotContains(t, err.Error()+w.text(), "hf_")

	h.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if h.OfStore(r) {
			w.WriteHeader(http.StatusNotFound)
		}
		return h.OfStore(r)
	})
	client, w, _ = opened(t, h, func(o *hub.Options) { o.Token = hubkit.Token })
	_, err = client.Pull(t.Context(), name(t, repo))
	require.Error(t, err)
	require.NotContains(t, err.Error()+w.text(), "secret", "addresses of the store are signed")
}

func TestFullDisk(t *testing.T) {
	h := hubkit.New(t)
	h.Add(repo, files())
	client, _, _ := opened(t, h, func(o *hub.Options) { o.FreeBytes = func(string) (int64, bool) { return 1 << 20, true } })
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, "does not fit on the disk: 5.0 MiB are to be fetched, 1.0 MiB are free in ")
	require.EqualValues(t, 90_000, hubkit.StoreBytes(h.Requests()), "the tokenizer, and nothing of the weights")

	if _, err := os.Stat("/dev/full"); err == nil {
		client, _, cache := opened(t, h)
		require.NoError(t, os.MkdirAll(filepath.Join(cache, "blobs"), 0o755))
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(cache, "blobs", hubkit.Hash("config.json", files()["config.json"])+".incomplete")))
		_, err := client.Pull(t.Context(), name(t, repo))
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "the disk is full")
	}
}

// A model that cannot be served is refused before its weights come in.
func TestCheckBeforeTheWeights(t *testing.T) {
	h := hubkit.New(t)
	h.Add(repo, files())
	client, _, _ := opened(t, h, func(o *hub.Options) {
		o.Check = func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, "config.json"))
			return fmt.Errorf("no such architecture: %s (%w)", b, err)
		}
	})
	_, err := client.Pull(t.Context(), name(t, repo))
	require.ErrorContains(t, err, `no such architecture: {"a":1}`)
	require.EqualValues(t, 90_000, hubkit.StoreBytes(h.Requests()))
}

// Of two that want the same, one fetches and the other waits for it.
func TestTwoAtOnce(t *testing.T) {
	h := hubkit.New(t)
	all := files()
	r := h.Add(repo, all)
	dir := t.TempDir()
	real := func(o *hub.Options) { o.CacheDir, o.Sleep = dir, nil }
	a, _, _ := opened(t, h, real)
	b, _, _ := opened(t, h, real)
	errs := make(chan error, 2)
	for _, client := range []*hub.Hub{a, b} {
		go func() {
			_, err := client.Pull(t.Context(), hub.Name{Repo: repo})
			errs <- err
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.EqualValues(t, weightBytes+90_000, hubkit.StoreBytes(h.Requests()), "nothing comes twice")
	holds(t, filepath.Join(dir, "models--org--some-model"), r.Commit, all, wanted)
}
