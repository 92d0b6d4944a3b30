package http

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"
)

// Key is an API key: who it belongs to and what it may do. The secret itself is
// not kept, only its hash.
type Key struct {
	Name              string            // for records and fair share; "" = one of several nameless ones
	SHA256            [sha256.Size]byte // of the secret
	RequestsPerMinute int               // 0 = no limit; a minute's worth may come at once
	TokensPerMinute   int               // prompt and generated; 0 = no limit
	Weight            int               // share relative to other keys; 0 = 1
	Admin             bool              // may see and cancel everybody's requests
}

// guarded are the prefixes of paths that need a key, as in vLLM.
var guarded = []string{"/v1", "/v2", "/inference", "/cohere"}

// key is a Key with what is left of its limits.
type key struct {
	Key
	requests, tokens *rate.Limiter // nil = no limit
}

// keyring is the keys of a server. They never change.
type keyring struct {
	keys     []*key
	isOpen   bool // clients need no key: none is configured but those of administrators
	hasAdmin bool
	salted   bool // each key has a prefix cache of its own
}

func newKeyring(o *Options) *keyring {
	r := &keyring{isOpen: len(o.APIKeys) == 0, salted: o.SaltByKey}
	for _, secret := range o.APIKeys {
		r.keys = append(r.keys, newKey(Key{SHA256: sha256.Sum256([]byte(secret))}))
	}
	for _, k := range o.Keys {
		r.keys = append(r.keys, newKey(k))
		r.isOpen = r.isOpen && k.Admin
		r.hasAdmin = r.hasAdmin || k.Admin
	}
	return r
}

func newKey(k Key) *key {
	return &key{Key: k, requests: perMinute(k.RequestsPerMinute), tokens: perMinute(k.TokensPerMinute)}
}

func perMinute(n int) *rate.Limiter {
	if n == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(n)/60, n)
}

// checkKeys refuses keys that could not be told apart or mean nothing.
func checkKeys(keys []Key) error {
	for i, k := range keys {
		switch {
		case k.RequestsPerMinute < 0 || k.TokensPerMinute < 0 || k.Weight < 0:
			return fmt.Errorf("http: key %q has a negative limit or weight", k.Name)
		case k.SHA256 == sha256.Sum256(nil):
			return errors.New("http: Options.Keys holds an empty key")
		case slices.ContainsFunc(keys[:i], func(o Key) bool { return o.SHA256 == k.SHA256 || o.Name == k.Name && k.Name != "" }):
			return fmt.Errorf("http: key %q is there twice", k.Name)
		}
	}
	return nil
}

// find returns the key that a request was sent with, nil if it has none or an
// unknown one.
func (r *keyring) find(h *fasthttp.RequestHeader) *key {
	if len(r.keys) == 0 {
		return nil
	}
	scheme, token, _ := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = string(h.Peek(headerAPIKey)) // where Anthropic's clients have it; no key is empty
	}
	// Hashes have one length, and all keys are compared: the time taken tells nothing.
	sum := sha256.Sum256([]byte(token))
	found := 0
	for i, k := range r.keys {
		found |= (i + 1) * subtle.ConstantTimeCompare(sum[:], k.SHA256[:])
	}
	if found == 0 || found > len(r.keys) {
		return nil
	}
	return r.keys[found-1]
}

// mayPass reports whether a request may go on with its key, which may be nil.
// path is the one that routes are matched with, byte by byte, so no other
// spelling reaches a guarded route.
func (r *keyring) mayPass(k *key, h *fasthttp.RequestHeader, path string) bool {
	isGuarded := slices.ContainsFunc(guarded, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	return k != nil || r.isOpen || !isGuarded || h.IsOptions()
}

// admin wraps a handler that only administrators may call. Without an
// administrator's key the endpoint does not exist.
func (s *Server) admin(h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		k := exchangeOf(c.Context()).key
		switch {
		case !s.keys.hasAdmin:
			return fiber.ErrNotFound
		case k == nil:
			writeUnauthorized(c.Context())
			return nil
		case !k.Admin:
			return &statusError{fiber.StatusForbidden, "This needs an administrator's key"}
		}
		return h(c)
	}
}

func writeUnauthorized(ctx *fasthttp.RequestCtx) {
	if exchangeOf(ctx).isMessages() {
		writeProblem(ctx, statusProblem(fasthttp.StatusUnauthorized, "A valid API key is needed, as x-api-key or as Authorization: Bearer"))
		return
	}
	writeJSON(ctx, fasthttp.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
}

// admit takes one request off the key's limits, or says when there will be room.
// Tokens are charged as they are used, so a request is let in if the ones before
// it have left anything.
func (k *key) admit(now time.Time) error {
	if k == nil {
		return nil
	}
	if left := tokensLeft(k.tokens, now); left < 1 {
		wait := time.Duration((1 - left) / float64(k.tokens.Limit()) * float64(time.Second))
		return k.tooFast("tokens", k.TokensPerMinute, wait)
	}
	if k.requests == nil {
		return nil
	}
	r := k.requests.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return k.tooFast("requests", k.RequestsPerMinute, wait)
	}
	return nil
}

func tokensLeft(l *rate.Limiter, now time.Time) float64 {
	if l == nil {
		return 1
	}
	return l.TokensAt(now)
}

func (k *key) tooFast(what string, limit int, wait time.Duration) error {
	return &infer.Error{
		Code:       infer.CodeRateLimited,
		Message:    fmt.Sprintf("Rate limit reached for key %q: %d %s per minute. Try again in %.1f s.", k.Name, limit, what, wait.Seconds()),
		RetryAfter: wait,
	}
}

// charge takes tokens that were used off the key's limit, which may go below zero.
func (k *key) charge(now time.Time, numTokens int) {
	if k == nil || k.tokens == nil {
		return
	}
	for numTokens > 0 { // a reservation cannot be above the burst
		n := min(numTokens, k.tokens.Burst())
		k.tokens.ReserveN(now, n)
		numTokens -= n
	}
}

// label is the name that fair share, records and metrics go by.
func (k *key) label() string {
	if k == nil {
		return ""
	}
	return k.Name
}

// sign puts the key's name, weight and prefix cache into a request. A salt of a
// client holds no NUL, so that no salt can reach into another key's cache.
func (r *keyring) sign(req *infer.Request, k *key) {
	if k != nil {
		req.Key, req.KeyWeight = k.Name, k.Weight
	}
	if r.salted {
		req.CacheSalt = req.Key + "\x00" + req.CacheSalt
	}
}
