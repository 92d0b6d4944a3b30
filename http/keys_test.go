package http_test

import (
	"context"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

func named(name, secret string) http.Key {
	return http.Key{Name: name, SHA256: sha256.Sum256([]byte(secret))}
}

func TestNamedKeys(t *testing.T) {
	requests := make(chan *infer.Request, 8)
	g := &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		requests <- r
		return newStream(r.ID, finish("a"), final(3, 2)), nil
	}}
	limited := named("team-a", "sk-a")
	limited.RequestsPerMinute, limited.Weight = 1, 5
	s := start(t, http.Options{Generator: g, Keys: []http.Key{limited, named("team-b", "sk-b")}, APIKeys: []string{"plain"}, SaltByKey: true})
	send := func(secret string) response {
		return s.do(t, "POST", "/v1/chat/completions", chat(`"cache_salt":"x"`), "Authorization", "Bearer "+secret)
	}
	require.Equal(t, 200, send("sk-a").StatusCode)
	r := <-requests
	require.Equal(t, "team-a", r.Key)
	require.Equal(t, 5, r.KeyWeight)
	first := r.CacheSalt

	res := send("sk-a")
	require.Equal(t, 429, res.StatusCode)
	require.Regexp(t, `^\{"error":\{"message":"Rate limit reached for key \\"team-a\\": 1 requests per minute\. Try again in [0-9.]+ s\.","type":"Too Many Requests","param":null,"code":429,"reason":"rate_limit_exceeded"\}\}$`, res.body)
	require.Contains(t, []string{"59", "60"}, res.Header.Get("Retry-After"))

	require.Equal(t, 200, send("sk-b").StatusCode, "another key's limits are its own")
	r = <-requests
	require.Equal(t, "team-b", r.Key)
	require.NotEqual(t, first, r.CacheSalt)
	require.Equal(t, 200, send("plain").StatusCode)
	require.Empty(t, (<-requests).Key)
	require.Equal(t, 401, send("sk-c").StatusCode)
	require.Empty(t, requests)
}

func TestAdminKeyAloneClosesNothing(t *testing.T) {
	root := named("admin", "root")
	root.Admin = true
	s := start(t, http.Options{Keys: []http.Key{root}})
	require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", chat("")).StatusCode)
	require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", chat(""), "Authorization", "Bearer root").StatusCode)
}

func TestKeysAreChecked(t *testing.T) {
	negative := named("a", "x")
	negative.TokensPerMinute = -1
	for _, keys := range [][]http.Key{{negative}, {named("a", "")}, {named("a", "x"), named("a", "y")}, {named("a", "x"), named("b", "x")}} {
		_, err := http.New(http.Options{Generator: answers(), Keys: keys})
		require.Error(t, err)
	}
}
