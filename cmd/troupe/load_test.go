package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder copies the embedded model to disk, with files replaced (nil = left out).
func folder(t *testing.T, changes map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	embedded, err := openFolder("")
	require.NoError(t, err)
	for _, name := range []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		b, changed := changes[name]
		if !changed {
			if b, err = embedded.File(name); err != nil {
				continue
			}
		}
		if b != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
	}
	return dir
}

func TestServeFolder(t *testing.T) {
	dir := folder(t, nil)
	r := start(t, "serve", dir, "--host", "127.0.0.1", "--port", "0", "--tokenizer", dir, "--generation-config", "vllm", "--dtype", "float32")
	_, text := get(t, http.DefaultClient, r.url+"/v1/models")
	require.Contains(t, text, `"id":"`+dir+`"`)
	r.stop(t)
}

func TestBrokenTemplateOfTheModelIsAWarning(t *testing.T) {
	dir := folder(t, map[string][]byte{"chat_template.jinja": []byte("{% for m in messages %}{{ m.content ")})
	r := start(t, "serve", dir, "--host", "127.0.0.1", "--port", "0")
	require.Contains(t, r.log.String(), "WARNING")
	require.Contains(t, r.log.String(), "chat template is broken")
	status, _ := post(t, r.url+"/v1/completions", `{"prompt":"a","max_tokens":1}`)
	require.Equal(t, 200, status)
	status, _ = post(t, r.url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`)
	require.Equal(t, 400, status)
	r.stop(t)

	r = start(t, "serve", dir, "--host", "127.0.0.1", "--port", "0", "--chat-template", "{{ messages[0].content }}")
	require.NotContains(t, r.log.String(), "broken")
	status, text := post(t, r.url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`)
	require.Equal(t, 200, status, text)
	r.stop(t)
}

func TestBrokenFolders(t *testing.T) {
	for name, tt := range map[string]struct {
		changes map[string][]byte
		want    string
	}{
		"no config":        {map[string][]byte{"config.json": nil}, "there is no config.json"},
		"no tokenizer":     {map[string][]byte{"tokenizer.json": nil}, "there is no tokenizer.json"},
		"broken tokenizer": {map[string][]byte{"tokenizer.json": []byte("{")}, "tokenizer.json"},
		"no weights":       {map[string][]byte{"model.safetensors": nil}, "safetensors"},
		"lfs pointer":      {map[string][]byte{"model.safetensors": []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")}, "git-lfs"},
		"architecture":     {map[string][]byte{"config.json": []byte(`{"architectures":["Mamba"]}`)}, "Mamba"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := execute(t, "", "serve", folder(t, tt.changes), "--port", "0")
			require.Equal(t, exitFailure, code)
			require.True(t, strings.HasPrefix(stderr, "Error: "), stderr)
			require.Contains(t, stderr, tt.want)
			require.NotContains(t, stderr, "goroutine")
		})
	}
}
