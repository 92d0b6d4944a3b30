//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// farewell is a client that leaves: when, and how it was connected.
type farewell struct {
	name   string
	phase  string // in which its request is then
	stream bool
	reused bool // the connection has served a request before
	prompt string
}

var farewells = func() []farewell {
	long := strings.Repeat("word ", 3000)
	return []farewell{
		{name: "queued", phase: "queued", prompt: "Go on."},
		{name: "queued-stream", phase: "queued", stream: true, prompt: "Go on."},
		{name: "prefill", phase: "prefill", prompt: long},
		{name: "prefill-stream", phase: "prefill", stream: true, prompt: long},
		{name: "decode", phase: "decode", prompt: "Go on."},
		{name: "decode-stream", phase: "decode", stream: true, prompt: "Go on."},
		{name: "reused", phase: "decode", reused: true, prompt: "Go on."},
		{name: "reused-stream", phase: "decode", stream: true, reused: true, prompt: "Go on."},
	}
}()

// TestDisconnects: whoever leaves, in whatever phase and over whatever connection,
// is noticed at once, and all that the request held comes back.
func TestDisconnects(t *testing.T) {
	const tries = 5
	dir := roomy(t)
	for transport, flags := range map[string][]string{"TCP": nil, "TLS": certificate(t)} {
		s := serve(t, append(flags, dir, "--served-model-name", "understudy", "--max-num-seqs", "1", "--max-num-batched-tokens", "16",
			"--no-enable-prefix-caching", "--admin-api-key", adminKey, "--disable-uvicorn-access-log")...)
		s.chat(obj{"model": "understudy", "messages": user("Hello."), "max_tokens": 2})
		baseline := s.atRest(nil)
		for _, f := range farewells {
			var noticed []time.Duration
			for i := range tries {
				noticed = append(noticed, s.leaveAs(f, fmt.Sprintf("%s-%d", f.name, i)))
			}
			s.atRest(&baseline)
			slices.Sort(noticed)
			t.Logf("%s, %s: noticed after %v", transport, f.name, noticed)
			require.Less(t, noticed[tries/2], 50*time.Millisecond, "%s, %s (median)", transport, f.name)
		}
		m := s.scrape()
		numQueued := 2 * tries // each had one before it, which was left too
		require.EqualValues(t, tries*len(farewells)+numQueued, finished(m, "abort"), "%s: each was counted once", transport)
		require.EqualValues(t, sum(m, "troupe:requests_finished_total"), sum(m, "troupe:requests_received_total"))
	}
}

// leaveAs sends a request and leaves. It returns how much later the request was over, by the server's own stamps.
func (s *server) leaveAs(f farewell, id string) time.Duration {
	s.t.Helper()
	fields := obj{"model": "understudy", "messages": user(f.prompt), "max_tokens": 4000, "ignore_eos": true, "temperature": 1, "stream": f.stream}
	if f.phase == "queued" {
		before := s.dial()
		before.chat(fields, "X-Request-Id", id+"-before")
		s.eventually(func() bool { return s.phase(id+"-before") == "decode" }, "the slot is taken")
		defer func() {
			require.NoError(s.t, before.Close())
			s.over(id + "-before")
		}()
	}
	w := s.dial()
	if f.reused {
		w.chat(obj{"model": "understudy", "messages": user("Hello."), "max_tokens": 2})
		resp := w.answer()
		_, err := io.Copy(io.Discard, resp.Body)
		require.NoError(s.t, err)
		require.Equal(s.t, http.StatusOK, resp.StatusCode)
	}
	w.chat(fields, "X-Request-Id", id)
	s.eventually(func() bool { return s.phase(id) == f.phase }, f.name)
	if f.stream && f.phase == "decode" {
		w.readEvents(3)
	}
	left := time.Now()
	require.NoError(s.t, w.Close())
	record := s.over(id)
	require.Equal(s.t, "abort", record["finish_reason"], f.name)
	require.EqualValues(s.t, 499, record["status"], f.name)
	require.Equal(s.t, f.phase == "decode", record["num_output_tokens"].(float64) > 0, f.name)
	received, err := time.Parse(time.RFC3339Nano, record["received_at"].(string))
	require.NoError(s.t, err)
	return received.Add(time.Duration(record["e2e_ms"].(float64) * float64(time.Millisecond))).Sub(left)
}

// phase returns the phase of a request in flight, "" if there is none of that id.
func (s *server) phase(id string) string {
	s.t.Helper()
	for _, r := range s.live() {
		if r.id == "chatcmpl-"+id {
			return r.phase
		}
	}
	return ""
}

// over waits for the record of a request that has ended.
func (s *server) over(id string) (record obj) {
	s.t.Helper()
	s.eventually(func() bool {
		r := s.do("GET", "/v1/requests/chatcmpl-"+id, "", bearer(adminKey)...)
		if r.Status != http.StatusOK {
			return false
		}
		record = s.parse(r.Body)
		return record["finish_reason"] != nil
	}, id+" is over")
	return record
}

// TestO47HTTP10: clients without chunked answers get theirs, and may leave too.
func TestO47HTTP10(t *testing.T) {
	s := serve(t, "--max-num-seqs", "1", "--admin-api-key", adminKey)
	req := obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 20, "temperature": 0}
	want, _ := s.chat(req)
	for _, stream := range []bool{false, true} {
		w := s.dial()
		w.say(chatText("HTTP/1.0", with(req, obj{"stream": stream})))
		resp := w.answer()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		if stream {
			require.True(t, strings.HasSuffix(string(b), "data: [DONE]\n\n"), "%s", b)
			continue
		}
		require.Equal(t, content(want, 0), content(s.parse(b), 0))
	}
	for _, stream := range []bool{false, true} {
		w := s.dial()
		w.say(chatText("HTTP/1.0", with(endless("Go on."), obj{"stream": stream})))
		s.eventually(func() bool { return s.phases()["decode"] == 1 }, "it runs")
		if !stream { // nothing can be sent to see whether it still reads, so only a reset tells
			require.NoError(t, w.tcp.SetLinger(0))
		}
		require.NoError(t, w.Close())
		requireIdle(t, s)
	}
	require.EqualValues(t, 2, finished(s.scrape(), "abort"))
}

// TestO47HalfClosed: a client that has closed its sending half only still reads.
func TestO47HalfClosed(t *testing.T) {
	s := serve(t, "--max-num-seqs", "1", "--admin-api-key", adminKey)
	req := obj{"model": "understudy", "messages": user("Tell me a story."), "max_tokens": 300, "ignore_eos": true, "temperature": 0}
	want, _ := s.chat(req)
	for _, stream := range []bool{false, true} {
		w := s.dial()
		w.chat(with(req, obj{"stream": stream}))
		require.NoError(t, w.tcp.CloseWrite())
		resp := w.answer()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if stream {
			require.True(t, strings.HasSuffix(string(b), "data: [DONE]\n\n"), "%s", b)
			require.Contains(t, string(b), `"finish_reason":"length"`)
			continue
		}
		require.Equal(t, content(want, 0), content(s.parse(b), 0))
	}
	require.Zero(t, finished(s.scrape(), "abort"))

	w := s.dial() // and if it leaves altogether, that is noticed
	w.chat(with(endless("Go on."), obj{"stream": true}))
	require.NoError(t, w.tcp.CloseWrite())
	w.readEvents(3)
	require.NoError(t, w.Close())
	requireIdle(t, s)
	require.EqualValues(t, 1, finished(s.scrape(), "abort"))
}
