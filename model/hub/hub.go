package hub

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// Options say where models come from and go to. Zero values of the second half
// stand for good ones.
type Options struct {
	Endpoint string // URL of the hub
	CacheDir string // folder that holds models--ORG--NAME
	Token    string // "" = anonymous
	Offline  bool   // serve from the cache, without any request

	// Check looks at a folder of safetensors before the weights come in, when all
	// else is there: its error ends the pull. nil = no opinion.
	Check func(dir string) error

	UserAgent    string
	Progress     Progress                                   // nil = nobody looks
	Parallel     int                                        // ranges of a file that come in at once
	ChunkBytes   int64                                      // bytes per range; Parallel of them may wait in memory
	Attempts     int                                        // requests without progress before giving up
	StallTimeout time.Duration                              // longest silence of a server
	Sleep        func(context.Context, time.Duration) error // waits between attempts
	FreeBytes    func(dir string) (int64, bool)             // room on the disk; false = not known
}

// Progress is told how a pull goes on, from one goroutine at a time.
type Progress interface {
	// Begin says that a file comes in, of which have bytes are there already.
	Begin(path string, have, size int64)
	// Advance says how many bytes of the file are there; fewer than before if it
	// has to come again.
	Advance(have int64)
	// End says that the file is complete, or that it is not going to be.
	End()
	// Note is a line about what takes time or is not as expected.
	Note(line string)
}

// serial lets one goroutine at a time through.
type serial struct {
	mu sync.Mutex
	to Progress
}

func (s *serial) Begin(path string, have, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Begin(path, have, size)
}

func (s *serial) Advance(have int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Advance(have)
}

func (s *serial) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.End()
}

func (s *serial) Note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Note(line)
}

type nobody struct{}

func (nobody) Begin(string, int64, int64) {}
func (nobody) Advance(int64)              {}
func (nobody) End()                       {}
func (nobody) Note(string)                {}

const defaultEndpoint = "https://huggingface.co"

// FromEnv reads the variables that Python's huggingface_hub reads: HF_ENDPOINT,
// HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE and
// TRANSFORMERS_OFFLINE. The token may also be in the file that `hf auth login`
// writes.
func FromEnv(getenv func(string) string) (Options, error) {
	home := getenv("HF_HOME")
	if home == "" {
		cache := getenv("XDG_CACHE_HOME")
		if user := cmp.Or(getenv("HOME"), getenv("USERPROFILE")); cache == "" && user != "" {
			cache = filepath.Join(user, ".cache")
		}
		if cache != "" {
			home = filepath.Join(cache, "huggingface")
		}
	}
	o := Options{
		Endpoint: strings.TrimRight(cmp.Or(getenv("HF_ENDPOINT"), defaultEndpoint), "/"),
		CacheDir: cmp.Or(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE")),
		Token:    strings.TrimSpace(cmp.Or(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN"))),
		Offline:  isTrue(getenv("HF_HUB_OFFLINE")) || isTrue(getenv("TRANSFORMERS_OFFLINE")),
	}
	if o.CacheDir == "" && home != "" {
		o.CacheDir = filepath.Join(home, "hub")
	}
	tokenFile := getenv("HF_TOKEN_PATH")
	if tokenFile == "" && home != "" {
		tokenFile = filepath.Join(home, "token")
	}
	if o.Token == "" && tokenFile != "" && !o.Offline {
		token, err := readSmall(tokenFile, maxTokenBytes)
		if err != nil && !os.IsNotExist(err) {
			return o, infer.Errorf(infer.CodeInvalid, "HF_TOKEN", "the token file %s cannot be read: %v", tokenFile, plain(err))
		}
		o.Token = strings.TrimSpace(string(token))
	}
	return o, nil
}

const maxTokenBytes = 4096

func isTrue(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// Hub is a client of one hub.
type Hub struct {
	o         Options
	base      *url.URL
	client    *http.Client
	transport *http.Transport
}

// New checks the options. Close ends the connections.
func New(o Options) (*Hub, error) {
	base, err := url.Parse(o.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || base.RawQuery != "" {
		return nil, infer.Errorf(infer.CodeInvalid, "HF_ENDPOINT", "HF_ENDPOINT is not a URL such as %s", defaultEndpoint)
	}
	if o.CacheDir == "" {
		return nil, infer.Errorf(infer.CodeInvalid, "HF_HOME", "there is no folder for models: set HF_HOME or HF_HUB_CACHE, or give --download-dir")
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, infer.Errorf(infer.CodeInvalid, "HF_TOKEN", "the token holds characters that no token has")
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = nobody{}
	}
	o.Progress = &serial{to: o.Progress}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.FreeBytes == nil {
		o.FreeBytes = freeBytes
	}
	o.UserAgent = cmp.Or(o.UserAgent, "troupe")
	o.Parallel, o.ChunkBytes = cmp.Or(o.Parallel, 4), cmp.Or(o.ChunkBytes, 16<<20)
	o.Attempts, o.StallTimeout = cmp.Or(o.Attempts, 6), cmp.Or(o.StallTimeout, 30*time.Second)
	h := &Hub{o: o, base: base}
	h.transport = newTransport(o)
	h.client = &http.Client{Transport: h.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h, nil
}

// Close closes idle connections.
func (h *Hub) Close() { h.transport.CloseIdleConnections() }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
