package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/troupe-llm/troupe"

// allowed is the import table of ARCHITECTURE.md, "Rooms". The longest matching
// folder decides. A folder may always import itself and what lies below it.
var allowed = map[string][]string{
	"actors":         {"infer", "tokenizer", "chat", "sampling", "scheduler", "grammar", "metrics", "cluster"},
	"chat":           {"infer"},
	"cluster":        {"infer"},
	"cmd":            {"*"},
	"compute":        {"kernels", "gpu"},
	"gpu":            {},
	"grammar":        {"infer"},
	"http":           {"infer", "metrics"},
	"http/openai":    {"infer"},
	"http/anthropic": {"infer", "http/openai"},
	"infer":          {},
	"internal":       {"*"},
	"kernels":        {},
	"mcp":            {"infer"},
	"metrics":        {"infer"},
	"model":          {"infer", "compute", "sampling"},
	"sampling":       {"infer"},
	"scheduler":      {"infer"},
	"tokenizer":      {"infer"},
	"tools":          {"*"},
	"e2e":            {"*"},
}

// testOnly packages may be imported by tests alone.
var testOnly = []string{"internal/testkit", "compute/computetest"}

type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"/...").Output()
	require.NoError(t, err, "go list")
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
}

// room returns the most specific folder of the table that holds rel.
func room(rel string) string {
	for dir := rel; dir != "."; dir = filepath.Dir(dir) {
		if _, ok := allowed[dir]; ok {
			return dir
		}
	}
	return ""
}

func within(rel, folder string) bool { return rel == folder || strings.HasPrefix(rel, folder+"/") }

func mayImport(from, to string) bool {
	r := room(from)
	if within(to, r) {
		return true
	}
	for _, a := range allowed[r] {
		if a == "*" || within(to, a) {
			return true
		}
	}
	return false
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		require.NotEmpty(t, room(rel), "package %s stands in no room of the table", rel)
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			require.True(t, mayImport(rel, to), "%s may not import %s", rel, to)
			for _, only := range testOnly {
				require.False(t, within(to, only) && !within(rel, "internal/testkit") && !within(rel, "compute/computetest"),
					"%s imports %s, which is for tests only", rel, to)
			}
		}
	}
}

func TestEveryPackageIntroducesItself(t *testing.T) {
	for _, p := range listPackages(t) {
		if len(p.GoFiles) == 0 || strings.Contains(p.ImportPath, "/tools/") {
			continue
		}
		main := slices.Contains(p.GoFiles, "main.go")
		require.True(t, main || slices.Contains(p.GoFiles, "doc.go"), "%s has no doc.go", p.ImportPath)
	}
}
