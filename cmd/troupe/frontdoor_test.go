package main

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--request-log", path, "--admin-api-key", "root")
	status, text := post(t, r.url+"/v1/completions", `{"prompt":"The capital of France is","max_tokens":4,"temperature":0}`)
	require.Equal(t, 200, status)
	require.NotContains(t, text, `"metrics"`, "records have the times, answers only if asked for")
	status, _ = post(t, r.url+"/v1/completions", `{"prompt":""}`)
	require.Equal(t, 400, status)
	r.stop(t)

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"status":200,"finish_reason":`)
	require.Contains(t, lines[0], `"num_output_tokens":4`)
	require.NotContains(t, lines[0], "France")
	require.Contains(t, lines[1], `"finish_reason":"refused","error":"malformed"`)
	var record struct{ Metrics map[string]float64 }
	require.NoError(t, json.Unmarshal(b[:len(lines[0])], &record))
	require.Len(t, record.Metrics, 5)

	code, _, stderr := execute(t, "", "serve", "--request-log", filepath.Join(path, "x"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--request-log")
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	backing := httptest.NewTLSServer(http.NotFoundHandler()) // has a pair
	pair := backing.TLS.Certificates[0]
	client := backing.Client()
	backing.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))

	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--ssl-certfile", certFile, "--ssl-keyfile", keyFile)
	require.True(t, strings.HasPrefix(r.url, "https://127.0.0.1:"), r.url)
	resp, err := client.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"The capital of France is","max_tokens":4,"stream":true}`))
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(text), "[DONE]")
	client.CloseIdleConnections()
	r.stop(t)
}

func TestAdministration(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--admin-api-key", "root")
	status, text := post(t, r.url+"/v1/completions", `{"prompt":"The capital of France is","max_tokens":4,"temperature":0}`)
	require.Equal(t, 200, status)
	var answer struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	status, text = ask(t, "GET", r.url+"/v1/requests/"+answer.ID, "root")
	require.Equal(t, 200, status)
	require.Contains(t, text, `"num_output_tokens":4`)

	// Far more than can be done before it is cancelled.
	resp, err := http.Post(r.url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"Count:","max_tokens":900,"n":200,"seed":1,"ignore_eos":true,"stream":true,"temperature":1}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	stream := bufio.NewReader(resp.Body)
	_, err = stream.ReadString('\n')
	require.NoError(t, err)
	code, stdout, stderr := execute(t, "", "top", "--url", r.url, "--api-key", "root")
	require.Equal(t, exitOK, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Contains(t, lines[0], "1 in flight")
	id := strings.Fields(lines[2])[0]
	status, text = ask(t, "DELETE", r.url+"/v1/requests/"+id, "root")
	require.Equal(t, 200, status)
	require.Equal(t, `{"id":"`+id+`","object":"request","cancelled":true}`, text)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Contains(t, string(rest), "operator")
	require.Contains(t, string(rest), "[DONE]")
	status, _ = ask(t, "DELETE", r.url+"/v1/requests/"+id, "root")
	require.Equal(t, 404, status)
	_, text = ask(t, "GET", r.url+"/v1/requests/"+id, "root")
	require.Contains(t, text, `"finish_reason":"abort"`)
	code, _, stderr = execute(t, "", "top", "--url", r.url)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--api-key")
	r.stop(t)
}

// ask sends a request with a key and returns status and body.
func ask(t *testing.T, method, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}
