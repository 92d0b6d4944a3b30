//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// malformed are requests that HTTP does not allow, by what is wrong.
var malformed = map[string]string{
	"no request line":         "\r\n\r\n\r\n\r\n: \r\n\r\n",
	"words":                   "hello, is it me you are looking for?\r\n\r\n",
	"no version":              "GET /version\r\n\r\n",
	"HTTP/2 preface":          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"TLS hello":               "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x07", 500) + "\r\n\r\n",
	"zeros":                   strings.Repeat("\x00", 4096),
	"header without colon":    "GET /version HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
	"header without name":     "GET /version HTTP/1.1\r\nHost: x\r\n: value\r\n\r\n",
	"blank before colon":      "GET /version HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n",
	"NUL in a header":         "GET /version HTTP/1.1\r\nHost: x\r\nX-A: b\x00c\r\n\r\n",
	"negative length":         "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n{}",
	"length in words":         "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: five\r\n\r\n{}",
	"length with sign":        "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: +2\r\n\r\n{}",
	"length beyond an int":    "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
	"two lengths":             "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
	"length of a terabyte":    "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1099511627776\r\n\r\n{}",
	"chunk size in words":     "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n{}\r\n0\r\n\r\n",
	"chunk size beyond 64 b":  "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n",
	"negative chunk":          "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
	"chunk longer than said":  "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}{}{}\r\n0\r\n\r\n",
	"no length":               "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n{\"prompt\": \"a\"}",
	"method of 9000 letters":  strings.Repeat("G", 9000) + " /version HTTP/1.1\r\nHost: x\r\n\r\n",
	"unknown method":          "BREW /version HTTP/1.1\r\nHost: x\r\n\r\n",
	"path of 100 KB":          "GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	"10,000 headers":          "GET /version HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n",
	"path beyond the root":    "GET /../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
	"broken escapes":          "GET /v1/models/%zz%% HTTP/1.1\r\nHost: x\r\n\r\n",
	"an unfinished head":      "GET /version HTTP/1.1\r\nHost: x\r\nX-A: ",
	"an unfinished body":      "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"prompt\": ",
	"an unfinished chunk":     "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n500\r\n{\"prompt\": ",
	"a request in a request":  "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nXGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
	"an encoding of its own":  "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: cipher\r\nContent-Length: 2\r\n\r\n{}",
	"garbage after a request": "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n\x01\x02\x03\x04 garbage\r\n\r\n",
}

// exchangeRaw sends raw text, closes the sending half and reads all answers; none
// means that the server closed the connection without a word.
func (s *server) exchangeRaw(raw string) (answers []reply) {
	s.t.Helper()
	w := s.dial()
	defer w.Close()
	_, _ = io.WriteString(w, raw) // the server may hang up before the end
	_ = w.tcp.CloseWrite()
	for {
		resp, err := http.ReadResponse(w.r, nil)
		if err != nil {
			require.False(s.t, errors.Is(err, os.ErrDeadlineExceeded), "no answer and no end: %.80q", raw)
			return answers
		}
		b, err := io.ReadAll(resp.Body)
		require.False(s.t, errors.Is(err, os.ErrDeadlineExceeded), "half an answer: %.80q", raw)
		answers = append(answers, reply{Status: resp.StatusCode, Header: resp.Header, Body: b})
	}
}

// TestMalformedHTTP: what is not HTTP is told so, once, and nobody else notices.
func TestMalformedHTTP(t *testing.T) {
	s := serve(t, "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	alive(t, s)
	baseline := s.atRest(nil)
	s.beside(func() {
		for what, raw := range malformed {
			answers := s.exchangeRaw(raw)
			require.NotEmpty(t, answers, what)
			for _, a := range answers {
				require.True(t, a.Status >= 400 && a.Status < 500, "%s: %d %s", what, a.Status, a.Body)
				require.True(t, json.Valid(a.Body), "%s: %s", what, a.Body)
			}
		}
		require.Len(t, s.exchangeRaw(malformed["a request in a request"]), 1, "its inner request is not served")
		future := s.exchangeRaw("GET /version HTTP/9.9\r\nHost: x\r\n\r\n")
		require.Equal(t, http.StatusHTTPVersionNotSupported, future[0].Status)
		s.mutations(400)
	})
	s.atRest(&baseline)
	alive(t, s)
}

// mutations sends a valid request with random damage; whatever is made of it, it
// is no fault of the server.
func (s *server) mutations(n int) {
	s.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	valid := chatText("HTTP/1.1", obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 2}, "X-A", "b", "Accept", "*/*")
	for range n {
		raw := []byte(valid)
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(raw))
			switch rng.IntN(4) {
			case 0:
				raw[i] = byte(rng.IntN(256))
			case 1:
				raw = raw[:i+1]
			case 2:
				raw = append(raw[:i:i], raw[rng.IntN(len(raw)):]...)
			default:
				raw = append(raw[:i:i], append([]byte("\r\n"), raw[i:]...)...)
			}
		}
		for _, a := range s.exchangeRaw(string(raw)) {
			require.True(s.t, a.Status < 500 || a.Status == http.StatusHTTPVersionNotSupported, "%d: %q", a.Status, raw)
		}
	}
}
