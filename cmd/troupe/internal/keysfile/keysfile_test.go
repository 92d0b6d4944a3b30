package keysfile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/keysfile"
	"github.com/troupe-llm/troupe/http"
)

const good = `
keys:
  - name: team-a
    key: sk-secret-a
    requests_per_minute: 60
    tokens_per_minute: 20000
    weight: 2
  - name: team-b
    key_sha256: `

func sum(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

func hexSum(s string) string {
	b := sum(s)
	return hex.EncodeToString(b[:])
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(path, []byte(good+hexSum("sk-b")+"\n    admin: true\n"), 0o600))
	keys, err := keysfile.Load(path, "root")
	require.NoError(t, err)
	require.Equal(t, []http.Key{
		{Name: "team-a", SHA256: sum("sk-secret-a"), RequestsPerMinute: 60, TokensPerMinute: 20000, Weight: 2},
		{Name: "team-b", SHA256: sum("sk-b"), Admin: true},
		{Name: "admin", SHA256: sum("root"), Admin: true},
	}, keys)
	_, err = keysfile.Load(path, "sk-b")
	require.ErrorContains(t, err, "--admin-api-key")
	_, err = keysfile.Load(path+".not", "")
	require.ErrorContains(t, err, "--api-keys-file "+path+".not: ")
	keys, err = keysfile.Load("", "")
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestMistakesAreNamedAndSecretsAreNot(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "holds no keys"},
		{"keys: []", "holds no keys"},
		{"keys: {a: secret}", "line 1: "},
		{"secret", "line 1: "},
		{"keys: [", "not valid YAML"},
		{"keys:\n- name: a\n  secret: x", "line 3: "},
		{"keys:\n- name: a\n  key: x\n  weight: secret", "line 4: "},
		{"keys:\n- key: secret", "keys[0]: name must have"},
		{"keys:\n- {name: a b, key: secret}", "visible ASCII"},
		{"keys:\n- {name: a}", "exactly one of key and key_sha256"},
		{"keys:\n- {name: a, key: secret, key_sha256: aa}", "exactly one"},
		{"keys:\n- {name: a, key_sha256: secret}", "64 hex digits"},
		{"keys:\n- {name: a, key: secret, requests_per_minute: -1}", "requests_per_minute must be from 0"},
		{"keys:\n- {name: a, key: secret, weight: 1001}", "weight must be from 0 to 1000"},
		{"keys:\n- {name: a, key: x}\n- {name: a, key: y}", `keys[1]: the name "a" is there twice`},
		{"keys:\n- {name: a, key: secret}\n- {name: b, key: secret}", `"a" and "b" have the same key`},
		{"keys:\n- {name: a, key: " + strings.Repeat("secret", 100) + "}", "longer than"},
	} {
		_, err := keysfile.Parse([]byte(tt.text))
		require.ErrorContains(t, err, tt.want, tt.text)
		require.NotContains(t, err.Error(), "secret", tt.text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good + hexSum("x"))
	f.Add("keys:\n- &a {name: a, key: b}\n- *a")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := keysfile.Parse([]byte(text))
		require.Equal(t, err == nil, len(keys) > 0)
	})
}
