//go:build e2e

package e2e

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestO53ListAndCancel: an administrator sees what runs and can end it.
func TestO53ListAndCancel(t *testing.T) {
	s := roomyServer(t, "--api-key", "sk-user", "--enable-request-id-headers")
	require.Equal(t, http.StatusUnauthorized, s.do("GET", "/v1/requests", "").Status)
	require.Equal(t, http.StatusForbidden, s.do("GET", "/v1/requests", "", bearer("sk-user")...).Status)
	require.Empty(t, s.live())

	var answers [2]reply
	var errs [2]error
	var all sync.WaitGroup
	for i := range answers { // two with the same id
		all.Go(func() {
			answers[i], errs[i] = s.try(context.Background(), "POST", "/v1/chat/completions",
				body(with(endless("A very long story."), obj{"stream": true, "max_tokens": 8000})), append(bearer("sk-user"), "X-Request-Id", "case-cancel-1")...)
		})
	}
	s.eventually(func() bool { return s.phases()["decode"] == 2 }, "both run")
	live := s.live()
	require.Contains(t, live[0].id, "case-cancel-1")
	require.NotEqual(t, live[0].id, live[1].id)
	for i, r := range live {
		path := "/v1/requests/" + r.id
		require.Equal(t, http.StatusForbidden, s.do("DELETE", path, "", bearer("sk-user")...).Status)
		gone := s.do("DELETE", path, "", bearer(adminKey)...)
		require.Equal(t, http.StatusOK, gone.Status, "%s", gone.Body)
		require.Equal(t, obj{"id": r.id, "object": "request", "cancelled": true}, s.parse(gone.Body))
		s.eventually(func() bool { return len(s.live()) == 1-i }, "that one is gone, and no other")
	}
	all.Wait()
	requireNoErrors(t, errs[:])
	for _, a := range answers {
		require.Contains(t, string(a.Body), `data: {"error"`)
		require.Contains(t, string(a.Body), "data: [DONE]")
		require.Equal(t, "case-cancel-1", a.Header.Get("X-Request-Id"))
	}
	for _, r := range live {
		require.Equal(t, http.StatusNotFound, s.do("DELETE", "/v1/requests/"+r.id, "", bearer(adminKey)...).Status)
		record := s.parse(s.do("GET", "/v1/requests/"+r.id, "", bearer(adminKey)...).Body)
		require.Equal(t, "abort", record["finish_reason"])
		require.Positive(t, record["num_output_tokens"])
	}
	require.EqualValues(t, 2, finished(s.scrape(), "abort"))
	requireIdle(t, s)
}

// TestO53WhatTheListTells: everything about a request but its text.
func TestO53WhatTheListTells(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keys, []byte("keys: [{name: tenant-a, key: sk-a}]"), 0o600))
	s := roomyServer(t, "--max-num-seqs", "1", "--api-keys-file", keys)
	ctx, hangUp := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer hangUp()
	for i, text := range []string{"Secret number one.", "Secret number two.", "Secret number three."} { // one runs, two wait
		all.Go(func() {
			_, _ = s.try(ctx, "POST", "/v1/chat/completions", body(with(endless(text), obj{"max_tokens": 8000})), bearer("sk-a")...)
		})
		s.eventually(func() bool { return len(s.live()) == i+1 && s.phases()["decode"] == 1 }, "it is in")
	}
	raw := s.do("GET", "/v1/requests", "", bearer(adminKey)...).Body
	require.NotContains(t, string(raw), "Secret")
	var phases []string
	var places []int
	age := 1e12
	for _, r := range s.parse(raw)["data"].([]any) {
		r := r.(obj)
		phases, places = append(phases, r["phase"].(string)), append(places, int(r["queue_position"].(float64)))
		require.Equal(t, "tenant-a", r["key"])
		require.Positive(t, r["num_prompt_tokens"])
		require.Equal(t, r["phase"] == "decode", r["num_output_tokens"].(float64) > 0)
		require.Less(t, r["age_ms"], age, "oldest first")
		age = r["age_ms"].(float64)
	}
	require.Equal(t, []string{"decode", "queued", "queued"}, phases)
	require.Equal(t, []int{0, 1, 2}, places)
	queued := s.live()[2]
	require.Equal(t, http.StatusOK, s.do("DELETE", "/v1/requests/"+queued.id, "", bearer(adminKey)...).Status, "one that waits can be cancelled too")
	s.eventually(func() bool { return len(s.live()) == 2 }, "it is gone")
}

// TestO53CancelIsQuick: a cancelled stream ends within a second.
func TestO53CancelIsQuick(t *testing.T) {
	s := roomyServer(t)
	var took []time.Duration
	for range 3 {
		w := s.dial()
		w.chat(with(endless("Go on."), obj{"stream": true, "max_tokens": 8000}), "X-Request-Id", "quick")
		resp := w.answer()
		s.eventually(func() bool { return s.phase("quick") == "decode" }, "it runs")
		start := time.Now()
		require.Equal(t, http.StatusOK, s.do("DELETE", "/v1/requests/chatcmpl-quick", "", bearer(adminKey)...).Status)
		_, err := io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	require.Less(t, took[1], time.Second, "median of three")
}
