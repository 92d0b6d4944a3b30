package http

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
)

func TestRateOfRequests(t *testing.T) {
	k := newKey(Key{Name: "a", RequestsPerMinute: 2})
	now := time.Unix(1000, 0)
	require.NoError(t, k.admit(now))
	require.NoError(t, k.admit(now))
	for range 3 { // refusals cost nothing
		err := infer.AsError(k.admit(now))
		require.Equal(t, infer.CodeRateLimited, err.Code)
		require.Equal(t, 30*time.Second, err.RetryAfter)
		require.Contains(t, err.Message, `key "a": 2 requests per minute`)
	}
	require.NoError(t, k.admit(now.Add(30*time.Second)))
	require.Error(t, k.admit(now.Add(31*time.Second)))
}

func TestRateOfTokens(t *testing.T) {
	k := newKey(Key{Name: "a", TokensPerMinute: 60})
	now := time.Unix(1000, 0)
	require.NoError(t, k.admit(now))
	k.charge(now, 59)
	require.NoError(t, k.admit(now), "one is left")
	k.charge(now, 130) // more than a minute's worth
	err := infer.AsError(k.admit(now))
	require.Equal(t, infer.CodeRateLimited, err.Code)
	require.InDelta(t, 130, err.RetryAfter.Seconds(), 0.001)
	require.Error(t, k.admit(now.Add(129*time.Second)))
	require.NoError(t, k.admit(now.Add(131*time.Second)))
}

func TestNoKeyHasNoLimits(t *testing.T) {
	var k *key
	require.NoError(t, k.admit(time.Now()))
	k.charge(time.Now(), 5)
	require.Empty(t, k.label())
}

func TestSalts(t *testing.T) {
	salt := func(r *keyring, name, salt string) string {
		req := &infer.Request{CacheSalt: salt}
		r.sign(req, newKey(Key{Name: name, Weight: 3}))
		require.Equal(t, name, req.Key)
		require.Equal(t, 3, req.KeyWeight)
		return req.CacheSalt
	}
	r := &keyring{salted: true}
	seen := map[string]bool{}
	for _, name := range []string{"", "a", "b", "ab"} {
		for _, s := range []string{"", "a", "b", "ab"} {
			seen[salt(r, name, s)] = true
		}
	}
	require.Len(t, seen, 16, "no two keys share, whatever their clients' salts")
	require.Equal(t, "s", salt(&keyring{}, "a", "s"))
}
