package doctor

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/machine"
)

func TestJudge(t *testing.T) {
	r := &Report{MemoryAvailable: 1000, Bandwidth: 400}
	r.Add("small", model.Needs{NumParameters: 10, Types: "q8_0", WeightBytes: 600, DecodeBytes: 160, KVBytesPerToken: 4, MaxContext: 25})
	require.Equal(t, Fit{
		Name: "small", Type: "q8_0", NumParameters: 10, WeightBytes: 600, KVBytesPerToken: 4,
		Fits: true, ContextTokens: 100, DefaultContextTokens: 25, MaxContext: 25, TokensPerSecond: 2,
	}, *r.Model)
	require.NotContains(t, r.Model.verdict(), "--")

	r.Add("long", model.Needs{WeightBytes: 600, DecodeBytes: 160, KVBytesPerToken: 4, MaxContext: 80})
	require.Contains(t, r.Model.verdict(), "give --kv-cache-memory-bytes 320, or --max-model-len of at most 25")
	r.Add("longer", model.Needs{WeightBytes: 600, DecodeBytes: 160, KVBytesPerToken: 4, MaxContext: 101})
	require.Contains(t, r.Model.verdict(), "--max-model-len must be at most 100, or 25 without --kv-cache-memory-bytes")

	r.Add("large", model.Needs{WeightBytes: 998, KVBytesPerToken: 4})
	require.False(t, r.Model.Fits)
	require.EqualValues(t, 2, r.Model.MissingBytes)
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "does not fit: 2 B of memory are missing")
}

func TestLimitsOfControlGroups(t *testing.T) {
	table := func(l machine.Limits) string {
		r := &Report{Cores: 8, MemoryAvailable: l.Available}
		r.limit(l)
		var out bytes.Buffer
		require.NoError(t, r.WriteTable(&out))
		return out.String()
	}
	with := table(machine.Limits{Total: 8 << 30, Available: 1 << 30, Group: 2 << 30, GroupCPUs: 1.5})
	require.Contains(t, with, "1 GiB of 8 GiB available")
	require.Contains(t, with, "at most 2 GiB of memory")
	require.Contains(t, with, "at most 1.5 of 8 cores")
	without := table(machine.Limits{GroupCPUs: 8})
	require.Contains(t, without, "0 B assumed")
	require.NotContains(t, without, "Control group")
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 23 << 30: "23 GiB", 5 << 50: "5.12e+03 TiB"} {
		require.Equal(t, want, size(n))
	}
	for n, want := range map[int64]string{7: "7", 9999: "9999", 131072: "131k", 2_345_000: "2.35M", 70_600_000_000: "70.6B"} {
		require.Equal(t, want, count(n))
	}
}
