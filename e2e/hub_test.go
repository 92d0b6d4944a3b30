//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/hubkit"
)

// hubWith serves the embedded model's folder as troupe/understudy, and two GGUF
// files of it as troupe/understudy-GGUF.
func hubWith(t *testing.T) (h *hubkit.Hub, env []string) {
	t.Helper()
	h = hubkit.New(t)
	h.AddFolder(t, "troupe/understudy", folder(t))
	var err error
	gguf := map[string][]byte{}
	for _, dtype := range []string{"Q8_0", "Q4_0"} {
		gguf["understudy-"+dtype+".gguf"], err = os.ReadFile(asGGUF(t, dtype))
		require.NoError(t, err)
	}
	h.Add("troupe/understudy-GGUF", gguf)
	return h, []string{"HF_ENDPOINT=" + h.URL, "HF_HOME=" + t.TempDir(), "HF_TOKEN=" + hubkit.Token}
}

// pullCommand is `troupe pull` in an environment.
func pullCommand(env []string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.Command(troupe, append([]string{"pull"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), stdout, stderr
	return cmd, stdout, stderr
}

func TestModelsOfAHub(t *testing.T) {
	h, env := hubWith(t)
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	want, _ := serve(t).chat(ask)

	cmd, path, stderr := pullCommand(env, "troupe/understudy")
	require.NoError(t, cmd.Run(), stderr)
	require.FileExists(t, filepath.Join(strings.TrimSpace(path.String()), "model.safetensors"))
	h.Requests()
	s := serveEnv(t, env, "troupe/understudy")
	require.Empty(t, hubkit.Downloads(h.Requests()), "pull has fetched it")
	got, _ := s.chat(ask)
	require.Equal(t, "troupe/understudy", got["model"])
	require.Equal(t, choice(want, 0)["message"], choice(got, 0)["message"])

	s = serveEnv(t, env, "troupe/understudy-GGUF:q8_0")
	require.Contains(t, s.log.String(), "Fetching troupe/understudy-GGUF:q8_0: understudy-Q8_0.gguf")
	got, _ = s.chat(ask)
	require.Contains(t, choice(got, 0)["message"].(obj)["content"], "Paris")

	got, _ = serveEnv(t, env, "troupe/understudy-GGUF:Q4_0", "--tokenizer", "troupe/understudy").chat(ask)
	require.Contains(t, choice(got, 0)["message"].(obj)["content"], "Paris")

	h.Requests()
	s = serveEnv(t, append(env, "HF_HUB_OFFLINE=1"), "troupe/understudy-GGUF:Q8_0")
	s.chat(ask)
	require.Empty(t, h.Requests(), "offline")
	code, text := run(t, "serve", "troupe/understudy", "--download-dir", t.TempDir(), "--port", "0", "--revision", "../x")
	require.Equal(t, 1, code)
	require.Contains(t, text, "no revision")
}

// Two processes that want the same model take turns at its files.
func TestTwoPullsAtOnce(t *testing.T) {
	h, env := hubWith(t)
	a, pathA, errA := pullCommand(env, "troupe/understudy")
	b, pathB, errB := pullCommand(env, "troupe/understudy")
	require.NoError(t, a.Start())
	require.NoError(t, b.Start())
	require.NoError(t, a.Wait(), errA)
	require.NoError(t, b.Wait(), errB)
	require.Equal(t, pathA.String(), pathB.String())
	var want int64
	for _, name := range []string{"model.safetensors", "tokenizer.json"} {
		info, err := os.Stat(filepath.Join(understudy, name))
		require.NoError(t, err)
		want += info.Size()
	}
	require.Equal(t, want, hubkit.StoreBytes(h.Requests()), "nothing comes twice")
}

// A process that is killed in the middle leaves what has come, and the next one
// asks for the rest alone.
func TestKilledPullIsResumed(t *testing.T) {
	h, env := hubWith(t)
	weights, err := os.ReadFile(filepath.Join(understudy, "model.safetensors"))
	require.NoError(t, err)
	hash := hubkit.Hash("model.safetensors", weights)
	h.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, hash) {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(weights)))
		_, _ = w.Write(weights[:3<<20])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	})
	cmd, _, stderr := pullCommand(env, "troupe/understudy")
	require.NoError(t, cmd.Start())
	blobs := filepath.Join(strings.TrimPrefix(env[1], "HF_HOME="), "hub", "models--troupe--understudy", "blobs")
	there := func() int64 {
		info, err := os.Stat(filepath.Join(blobs, hash+".incomplete"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	require.Eventually(t, func() bool { return there() == 3<<20 }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), stderr)
	require.EqualValues(t, 3<<20, there())

	h.SetFault(nil)
	h.Requests()
	cmd, path, stderr := pullCommand(env, "troupe/understudy")
	require.NoError(t, cmd.Run(), stderr)
	require.Contains(t, stderr.String(), "3.0 MiB are there")
	require.EqualValues(t, len(weights)-(3<<20), hubkit.StoreBytes(h.Requests()))
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(path.String()), "model.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(weights, b))
}
