//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/metrics"
)

// TestNpmMessages runs npm @anthropic-ai/sdk through whole conversations. Each of its
// calls leaves one record, that of the stream it gave up included.
func TestNpmMessages(t *testing.T) {
	log := filepath.Join(t.TempDir(), "requests.log")
	s := serve(t, "--api-key", "secret", "--request-log", log, "--enable-per-request-metrics", "--enable-prompt-tokens-details",
		"--enable-auto-tool-choice", "--reasoning-parser", "glm45")
	cmd := exec.Command("node", "--test", "messages.mjs")
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL, "TROUPE_KEY=secret")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "# fail 0")
	s.stop()

	text, err := os.ReadFile(log)
	require.NoError(t, err)
	statuses := map[int]int{}
	for line := range bytes.Lines(text) {
		var r struct {
			Endpoint string
			Status   int
		}
		require.NoError(t, json.Unmarshal(line, &r))
		require.Equal(t, "/v1/messages", r.Endpoint)
		statuses[r.Status]++
	}
	require.Equal(t, 1, statuses[metrics.StatusClientGone], "%v", statuses)
	require.Equal(t, []int{6, 1, 1}, []int{statuses[http.StatusBadRequest], statuses[http.StatusUnauthorized], statuses[http.StatusNotFound]}, "%v", statuses)
	require.Greater(t, statuses[http.StatusOK], 15)
}
