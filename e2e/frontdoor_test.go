//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const keysFile = `keys:
  - {name: team-a, key: sk-a, requests_per_minute: 3, weight: 2}
  - {name: team-b, key: sk-b}
  - {name: ops, key: sk-admin, admin: true}
`

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

// TestKeysAndRecords: who may ask how much, and what is written about it.
func TestKeysAndRecords(t *testing.T) {
	dir := t.TempDir()
	keys, log := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "requests.jsonl")
	require.NoError(t, os.WriteFile(keys, []byte(keysFile), 0o600))
	s := serve(t, "--api-keys-file", keys, "--request-log", log, "--enable-per-request-metrics")
	ask := body(obj{"model": "understudy", "prompt": "Hello", "max_tokens": 3, "ignore_eos": true})
	for range 3 {
		require.Equal(t, http.StatusOK, s.do("POST", "/v1/completions", ask, bearer("sk-a")...).Status)
	}
	over := s.do("POST", "/v1/completions", ask, bearer("sk-a")...)
	require.Equal(t, http.StatusTooManyRequests, over.Status, "%s", over.Body)
	require.Equal(t, "rate_limit_exceeded", s.parse(over.Body)["error"].(obj)["reason"])
	wait, err := strconv.Atoi(over.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.True(t, wait >= 1 && wait <= 20, "three a minute is one in 20 s: %d", wait)
	require.Equal(t, http.StatusOK, s.do("POST", "/v1/completions", ask, bearer("sk-b")...).Status, "the others are not slowed")
	require.Equal(t, http.StatusUnauthorized, s.do("POST", "/v1/completions", ask, bearer("sk-c")...).Status)
	require.Equal(t, http.StatusBadRequest, s.do("POST", "/v1/completions", `{"prompt": 5}`, bearer("sk-b")...).Status)
	require.Equal(t, http.StatusOK, s.do("GET", "/health", "").Status)

	m := s.scrape()
	require.EqualValues(t, 7, sum(m, "troupe:requests_received_total"))
	require.EqualValues(t, 7, sum(m, "troupe:requests_finished_total"))
	require.EqualValues(t, 3, sum(m, "troupe:requests_finished_total", `key="team-a"`, `finished_reason="length"`))
	require.EqualValues(t, 1, sum(m, "troupe:requests_finished_total", `key="team-a"`, `finished_reason="refused"`))
	s.stop()
	f, err := os.Open(log)
	require.NoError(t, err)
	defer f.Close()
	outcomes := map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var r obj
		require.NoError(t, json.Unmarshal(sc.Bytes(), &r))
		outcomes[r["key"].(string)+" "+r["finish_reason"].(string)]++
		if r["finish_reason"] == "length" {
			require.EqualValues(t, 3, r["num_output_tokens"])
			require.NotNil(t, r["metrics"])
		}
	}
	require.Equal(t, map[string]int{"team-a length": 3, "team-a refused": 1, "team-b length": 1, "team-b refused": 1, " refused": 1}, outcomes)
}
