package http_test

import (
	"fmt"
	"io"
	nethttp "net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
)

func TestBodyHeaders(t *testing.T) {
	s := start(t, http.Options{})
	for _, c := range []struct {
		contentType, encoding string
		status                int
	}{
		{"application/json", "", 200}, {"Application/JSON; charset=utf-8", "identity", 200},
		{"text/plain", "", 400}, {"", "", 400}, {"application/x-www-form-urlencoded", "", 400}, {"multipart/form-data; boundary=x", "", 400},
		{"application/json", "gzip", 415},
	} {
		res := s.do(t, "POST", "/v1/chat/completions", chat(""), "Content-Type", c.contentType, "Content-Encoding", c.encoding)
		require.Equal(t, c.status, res.StatusCode, "%+v", c)
		if c.status != 200 {
			require.Contains(t, res.body, fmt.Sprintf(`"code":%d`, c.status))
		}
	}
}

func TestLargeBodiesAreServedAndForgotten(t *testing.T) {
	s := start(t, http.Options{})
	padded := chat(`"metadata":{"pad":"` + strings.Repeat("x", 8_000_000) + `"}`)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools are emptied by the second one
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", padded).StatusCode)
	before := heap()
	for range 3 {
		require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", padded).StatusCode)
	}
	require.Less(t, heap(), before+2_000_000)
}

func TestTooLargeBodies(t *testing.T) {
	const limit = 1 << 20
	s := start(t, http.Options{BodyLimit: limit})
	want := `{"error":{"message":"The request body is larger than the limit of 1048576 bytes","type":"Request Entity Too Large","param":null,"code":413,"reason":"invalid_request_error"}}`
	big := chat(`"pad":"` + strings.Repeat("x", 8*limit) + `"`)
	t.Run("announced and sent", func(t *testing.T) {
		res := s.do(t, "POST", "/v1/chat/completions", big)
		require.Equal(t, 413, res.StatusCode)
		require.Equal(t, want, res.body)
	})
	t.Run("sent to its end before reading", func(t *testing.T) {
		_, r := s.raw(t, post("/v1/chat/completions", big))
		all, err := io.ReadAll(r)
		require.NoError(t, err, "no reset")
		require.Contains(t, string(all), want)
		require.Contains(t, string(all), "Connection: close")
	})
	t.Run("chunked", func(t *testing.T) {
		req, err := nethttp.NewRequest("POST", s.url+"/v1/chat/completions", io.MultiReader(strings.NewReader(big)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := s.client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 413, res.StatusCode)
	})
	t.Run("announced, awaiting 100", func(t *testing.T) {
		_, r := s.raw(t, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
		all, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 413 "), string(all))
		require.Contains(t, string(all), want)
	})
	t.Run("exactly the limit", func(t *testing.T) {
		body := chat(`"pad":""`)
		body = chat(`"pad":"` + strings.Repeat("x", limit-len(body)) + `"`)
		require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", body).StatusCode)
		require.Equal(t, 413, s.do(t, "POST", "/v1/chat/completions", body+" ").StatusCode)
	})
}

func TestChunkedBody(t *testing.T) {
	s := start(t, http.Options{})
	conn, r := s.raw(t, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"7\r\n{\"promp\r\n6\r\nt\":\"x\"\r\n")
	_, err := io.WriteString(conn, "1\r\n}\r\n0\r\n\r\n")
	require.NoError(t, err)
	require.Contains(t, readHead(t, r), "200 OK")
}

func TestHeaderLimits(t *testing.T) {
	s := start(t, http.Options{})
	res := s.do(t, "POST", "/v1/chat/completions", chat(""), "Authorization", "Bearer "+strings.Repeat("x", 12_000))
	require.Equal(t, 200, res.StatusCode)
	_, r := s.raw(t, "GET /version HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 431 "), string(all[:min(len(all), 200)]))
	require.Contains(t, string(all), "Content-Type: application/json")
	require.Contains(t, string(all), `"type":"Request Header Fields Too Large","param":null,"code":431`)
}

func TestNoHTTP(t *testing.T) {
	s := start(t, http.Options{})
	_, r := s.raw(t, "hello\r\n\r\n")
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 400 "), string(all))
	require.Contains(t, string(all), `"message":"The request is not valid HTTP"`)
}

func TestStalledRequests(t *testing.T) {
	s := start(t, http.Options{ReadTimeout: 20 * time.Millisecond})
	for name, sent := range map[string]string{
		"headers":       "POST /v1/completions HTTP/1.1\r\nHost: x\r\n",
		"body":          post("/v1/completions", strings.Repeat(" ", 20_000))[:15_000],
		"start of body": post("/v1/completions", "{}x")[:len(post("/v1/completions", "{}x"))-1],
	} {
		t.Run(name, func(t *testing.T) {
			_, r := s.raw(t, sent)
			all, err := io.ReadAll(r)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 408 "), string(all))
			require.Contains(t, string(all), `"code":408`)
		})
	}
}

func TestAuthorization(t *testing.T) {
	s := start(t, http.Options{APIKeys: []string{"one", "two"}})
	for _, c := range []struct {
		method, path, header string
		status               int
	}{
		{"GET", "/v1/models", "Bearer one", 200}, {"GET", "/v1/models", "bearer two", 200},
		{"GET", "/v1/models", "", 401}, {"GET", "/v1/models", "Bearer", 401}, {"GET", "/v1/models", "Bearer three", 401},
		{"GET", "/v1/models", "Bearer one ", 200}, // HTTP trims the value of a field
		{"GET", "/v1/models", "Basic one", 401}, {"GET", "/v1/models", "one", 401}, {"GET", "/v1/models", "Bearer onetwo", 401},
		{"GET", "/v1/models/fake", "", 401}, {"POST", "/v1/responses", "", 401}, {"GET", "/v1/nowhere", "", 401}, {"GET", "/v2/x", "", 401},
		{"GET", "/health", "", 200}, {"GET", "/version", "", 200}, {"OPTIONS", "/v1/models", "", 405},
		// Other spellings of a guarded path reach no route.
		{"GET", "/V1/models", "", 404}, {"GET", "//v1/models", "", 404}, {"GET", "/%761/models", "", 404}, {"GET", "/x/../v1/models", "", 404},
	} {
		res := s.do(t, c.method, c.path, "", "Authorization", c.header)
		require.Equal(t, c.status, res.StatusCode, "%+v", c)
		if c.status == 401 {
			require.Equal(t, `{"error":"Unauthorized"}`, res.body)
		}
	}
	res := s.do(t, "POST", "/v1/chat/completions", chat(streamed))
	require.Equal(t, 401, res.StatusCode)
}

func TestCrossOrigin(t *testing.T) {
	s := start(t, http.Options{AllowedOrigins: []string{"*"}, AllowedMethods: []string{"*"}, AllowedHeaders: []string{"X-A", "X-B"}, APIKeys: []string{"k"}})
	res := s.do(t, "OPTIONS", "/v1/chat/completions", "", "Origin", "https://a.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-a")
	require.Equal(t, 204, res.StatusCode)
	require.Equal(t, "*", res.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "POST", res.Header.Get("Access-Control-Allow-Methods"))
	require.Equal(t, "X-A, X-B", res.Header.Get("Access-Control-Allow-Headers"))
	res = s.do(t, "POST", "/v1/chat/completions", chat(streamed), "Origin", "https://a.example", "Authorization", "Bearer k")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "*", res.Header.Get("Access-Control-Allow-Origin"))

	strict := start(t, http.Options{AllowedOrigins: []string{"https://a.example"}, AllowCredentials: true})
	res = strict.do(t, "GET", "/version", "", "Origin", "https://a.example")
	require.Equal(t, "https://a.example", res.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", res.Header.Get("Access-Control-Allow-Credentials"))
	res = strict.do(t, "GET", "/version", "", "Origin", "https://evil.example")
	require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", res.Header.Get("Vary"))
}
