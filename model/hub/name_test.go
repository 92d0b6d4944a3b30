package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model/hub"
)

func TestNames(t *testing.T) {
	for s, want := range map[string]hub.Name{
		"org/name":                            {Repo: "org/name"},
		"Qwen/Qwen2.5-0.5B_x":                 {Repo: "Qwen/Qwen2.5-0.5B_x"},
		"org/name:main":                       {Repo: "org/name", Revision: "main"},
		"org/name:refs/pr/1":                  {Repo: "org/name", Revision: "refs/pr/1"},
		"org/name:v1.0":                       {Repo: "org/name", Revision: "v1.0"},
		"org/name:Q8_0":                       {Repo: "org/name", File: "Q8_0"},
		"org/name:q4_k_m":                     {Repo: "org/name", File: "q4_k_m"},
		"org/name:IQ2_XXS":                    {Repo: "org/name", File: "IQ2_XXS"},
		"org/name:UD-Q4_K_XL":                 {Repo: "org/name", File: "UD-Q4_K_XL"},
		"org/name:BF16":                       {Repo: "org/name", File: "BF16"},
		"org/name:a-b.gguf":                   {Repo: "org/name", File: "a-b.gguf"},
		"org/name:" + strings.Repeat("a", 40): {Repo: "org/name", Revision: strings.Repeat("a", 40)},
	} {
		got, ok := hub.ParseName(s)
		require.True(t, ok, s)
		require.Equal(t, want, got)
		require.Equal(t, s, got.String())
	}
	for _, s := range []string{
		"", "name", "/org/name", "./org/name", "../name", "org/", "/name", "org/name/more", "org/..", "org/a..b", "org/a--b", "org/name.git", "or g/name", "org/name:",
		"org/name:../x", "org/name:a//b", "org/name:a:b", "org/name:/etc", "org/name:a/../b", "C:/name", `org\name`, "org/name\n", "org/-name", "org/name-", "org/" + strings.Repeat("a", 97),
		"org/name:CON", "org/name:a\x00", "http://x/y",
	} {
		_, ok := hub.ParseName(s)
		require.False(t, ok, "%q", s)
	}
}

func TestRevisionGivenApart(t *testing.T) {
	n, err := hub.Name{Repo: "a/b", File: "Q8_0"}.At("v1")
	require.NoError(t, err)
	require.Equal(t, hub.Name{Repo: "a/b", Revision: "v1", File: "Q8_0"}, n)
	_, err = hub.Name{Repo: "a/b", Revision: "v2"}.At("v1")
	require.ErrorContains(t, err, "give one of them")
	_, err = hub.Name{Repo: "a/b"}.At("../x")
	require.ErrorContains(t, err, "is no revision")
}

func TestEnvironment(t *testing.T) {
	from := func(env map[string]string) hub.Options {
		o, err := hub.FromEnv(func(k string) string { return env[k] })
		require.NoError(t, err)
		return o
	}
	o := from(map[string]string{"HOME": "/h"})
	require.Equal(t, hub.Options{Endpoint: "https://huggingface.co", CacheDir: "/h/.cache/huggingface/hub"}, o)
	require.Equal(t, "/x/huggingface/hub", from(map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}).CacheDir)
	require.Equal(t, "/f/hub", from(map[string]string{"HOME": "/h", "HF_HOME": "/f"}).CacheDir)
	require.Equal(t, "/c", from(map[string]string{"HF_HUB_CACHE": "/c", "HF_HOME": "/f"}).CacheDir)
	require.Equal(t, "http://m/x", from(map[string]string{"HF_ENDPOINT": "http://m/x/"}).Endpoint)
	require.Equal(t, "t", from(map[string]string{"HF_TOKEN": " t\n"}).Token)
	for v, want := range map[string]bool{"1": true, "true": true, "YES": true, "on": true, "0": false, "": false, "no": false} {
		require.Equal(t, want, from(map[string]string{"HF_HUB_OFFLINE": v}).Offline)
		require.Equal(t, want, from(map[string]string{"TRANSFORMERS_OFFLINE": v}).Offline)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("of the file\n"), 0o600))
	require.Equal(t, "of the file", from(map[string]string{"HF_HOME": dir}).Token)
	require.Equal(t, "of the file", from(map[string]string{"HF_TOKEN_PATH": filepath.Join(dir, "token")}).Token)
	require.Equal(t, "t", from(map[string]string{"HF_HOME": dir, "HF_TOKEN": "t"}).Token)

	for _, o := range []hub.Options{
		{Endpoint: "huggingface.co", CacheDir: "x"}, {Endpoint: "ftp://h", CacheDir: "x"}, {Endpoint: "https://u:p@h", CacheDir: "x"}, {Endpoint: "https://h"},
		{Endpoint: "https://h", CacheDir: "x", Token: "a\nb"},
	} {
		_, err := hub.New(o)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "u:p")
	}
}
