//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

// TestO53ListAndCancel: an administrator sees what runs and can end it.
func TestO53ListAndCancel(t *testing.T) {
	s := serve(t, "--admin-api-key", adminKey, "--api-key", "sk-user", "--enable-per-request-metrics")
	require.Equal(t, http.StatusUnauthorized, s.do("GET", "/v1/requests", "").Status)
	require.Equal(t, http.StatusForbidden, s.do("GET", "/v1/requests", "", bearer("sk-user")...).Status)
	require.Empty(t, s.live())

	var answers [2]reply
	var errs [2]error
	var all sync.WaitGroup
	for i := range answers { // two with the same id
		all.Go(func() {
			answers[i], errs[i] = s.try(context.Background(), "POST", "/v1/chat/completions", body(with(endless("A very long story."), obj{"stream": true})),
				append(bearer("sk-user"), "X-Request-Id", "case-cancel-1")...)
		})
	}
	s.eventually(func() bool {
		live := s.live()
		return len(live) == 2 && live[0].phase == "decode" && live[1].phase == "decode"
	}, "both run")
	live := s.live()
	require.Len(t, live, 2, "they were over too soon")
	require.Contains(t, live[0].id, "case-cancel-1")
	require.NotEqual(t, live[0].id, live[1].id)
	for _, r := range live {
		path := "/v1/requests/" + r.id
		require.Equal(t, http.StatusForbidden, s.do("DELETE", path, "", bearer("sk-user")...).Status)
		gone := s.do("DELETE", path, "", bearer(adminKey)...)
		require.Equal(t, http.StatusOK, gone.Status, "%s", gone.Body)
		require.Equal(t, obj{"id": r.id, "object": "request", "cancelled": true}, s.parse(gone.Body))
	}
	all.Wait()
	requireNoErrors(t, errs[:])
	for _, a := range answers {
		require.Contains(t, string(a.Body), `data: {"error"`)
		require.Contains(t, string(a.Body), "data: [DONE]")
	}
	require.Empty(t, s.live())
	for _, r := range live {
		require.Equal(t, http.StatusNotFound, s.do("DELETE", "/v1/requests/"+r.id, "", bearer(adminKey)...).Status)
		record := s.parse(s.do("GET", "/v1/requests/"+r.id, "", bearer(adminKey)...).Body)
		require.Equal(t, "abort", record["finish_reason"])
		require.Positive(t, record["num_output_tokens"])
	}
	require.EqualValues(t, 2, finished(s.scrape(), "abort"))
	requireIdle(t, s)
}
