package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/cluster"
)

func serving() cluster.Candidate {
	return cluster.Candidate{Model: "m", Serving: true, MaxNumSeqs: 8, BlockSize: 16, MaxModelLen: 1000, Load: cluster.Load{NumFreeBlocks: 100}}
}

func TestPickFilters(t *testing.T) {
	now := int64(time.Hour)
	demand := cluster.Demand{Model: "m", NumTokens: 10, MaxNumTokens: 100}
	for name, change := range map[string]func(*cluster.Demand, *cluster.Candidate){
		"another model":        func(_ *cluster.Demand, c *cluster.Candidate) { c.Model = "n" },
		"not serving":          func(_ *cluster.Demand, c *cluster.Candidate) { c.Serving = false },
		"too long for it":      func(d *cluster.Demand, _ *cluster.Candidate) { d.MaxNumTokens = 1001 },
		"stale":                func(_ *cluster.Demand, c *cluster.Candidate) { c.SampledAt = now - int64(2*time.Second) - 1 },
		"stale, another model": func(d *cluster.Demand, c *cluster.Candidate) { d.Model, c.SampledAt = "n", 0 },
	} {
		t.Run(name, func(t *testing.T) {
			d, c := demand, serving()
			c.SampledAt = now
			p := cluster.NewPlacer(1)
			require.Equal(t, 0, p.Pick(&d, []cluster.Candidate{c}, now))
			change(&d, &c)
			require.Equal(t, -1, p.Pick(&d, []cluster.Candidate{c}, now))
		})
	}
	local := serving()
	local.Local = true
	require.Equal(t, 0, cluster.NewPlacer(1).Pick(&demand, []cluster.Candidate{local}, now), "a local device is never stale")
	require.Equal(t, -1, cluster.NewPlacer(1).Pick(&demand, nil, now))
}

func TestPickPrefers(t *testing.T) {
	prompt := make([]int32, 640)
	for i := range prompt {
		prompt[i] = int32(i)
	}
	hashes := cluster.PrefixHashes("", prompt)
	var known cluster.Digest
	known.Add(hashes)
	demand := cluster.Demand{Model: "m", NumTokens: len(prompt), MaxNumTokens: len(prompt) + 10, Prefixes: hashes}
	for name, change := range map[string]func(worse, better *cluster.Candidate){
		"fewer sequences":      func(w, _ *cluster.Candidate) { w.Load.NumSequences = 1 },
		"fewer queued tokens":  func(w, b *cluster.Candidate) { w.Load.NumQueuedTokens, b.Load.NumSequences = 1000, 2 },
		"fewer of this front":  func(w, _ *cluster.Candidate) { w.Placed.NumSequences = 1 },
		"fewer tokens of it":   func(w, _ *cluster.Candidate) { w.Placed.NumTokens = 100 },
		"a free seat":          func(w, b *cluster.Candidate) { w.MaxNumSeqs, w.Load.NumSequences, b.Load.NumSequences = 2, 2, 5 },
		"free blocks":          func(w, b *cluster.Candidate) { w.Load.NumFreeBlocks, b.Load.NumSequences = 3, 4 },
		"blocks not yet taken": func(w, b *cluster.Candidate) { w.Placed.NumTokens, b.Load.NumQueuedTokens = 1500, 1500 },
		"the prompt's prefix":  func(_, b *cluster.Candidate) { b.Prefixes, b.Load.NumSequences = &known, 5 },
		"little work over the prefix": func(w, _ *cluster.Candidate) {
			w.Prefixes, w.Load.NumQueuedTokens = &known, 2000
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := []cluster.Candidate{serving(), serving()}
			change(&c[0], &c[1])
			require.Equal(t, 1, cluster.NewPlacer(1).Pick(&demand, c, 0))
			c[0], c[1] = c[1], c[0]
			require.Equal(t, 0, cluster.NewPlacer(1).Pick(&demand, c, 0))
		})
	}
}

// Equal devices get equal shares, however many there are.
func TestPickSpreadsOverEquals(t *testing.T) {
	for _, n := range []int{2, 16, 300} {
		p, counts := cluster.NewPlacer(7), make([]int, n)
		c := make([]cluster.Candidate, n)
		for i := range c {
			c[i] = serving()
		}
		for range 100 * n {
			counts[p.Pick(&cluster.Demand{Model: "m", NumTokens: 1}, c, 0)]++
		}
		for i, count := range counts {
			require.InDelta(t, 100, count, 50, "candidate %d of %d", i, n)
		}
	}
}

// What is picked can take the sequence; and of few candidates, none that can has a
// lower score. Whoever finds none, there is none.
func TestPickIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := int64(10 * time.Second)
		candidate := rapid.Custom(func(t *rapid.T) cluster.Candidate {
			return cluster.Candidate{
				Model: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), Serving: rapid.Bool().Draw(t, "serving"),
				Local: rapid.Bool().Draw(t, "local"), MaxNumSeqs: rapid.IntRange(0, 4).Draw(t, "seats"), BlockSize: 16,
				MaxModelLen: rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "length"),
				Load: cluster.Load{
					NumSequences: rapid.IntRange(0, 9).Draw(t, "sequences"), NumQueuedTokens: rapid.IntRange(0, 5000).Draw(t, "queued"),
					NumFreeBlocks: rapid.IntRange(0, 99).Draw(t, "free"),
				},
				SampledAt: now - rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "age"),
			}
		})
		candidates := rapid.SliceOfN(candidate, 0, 40).Draw(t, "candidates")
		d := cluster.Demand{Model: "m", NumTokens: rapid.IntRange(1, 900).Draw(t, "tokens")}
		d.MaxNumTokens = d.NumTokens + rapid.IntRange(0, 200).Draw(t, "more")
		can := func(c *cluster.Candidate) bool {
			return c.Serving && c.Model == "m" && (c.Local || now-c.SampledAt <= int64(2*time.Second)) &&
				(c.MaxModelLen == 0 || d.MaxNumTokens <= c.MaxModelLen)
		}
		numEligible := 0
		for i := range candidates {
			if can(&candidates[i]) {
				numEligible++
			}
		}
		p := cluster.NewPlacer(rapid.Uint64().Draw(t, "seed"))
		i := p.Pick(&d, candidates, now)
		if numEligible == 0 {
			require.Equal(t, -1, i)
			return
		}
		require.True(t, can(&candidates[i]))
		for j := range candidates {
			if numEligible <= p.MaxScored && can(&candidates[j]) {
				require.LessOrEqual(t, p.Score(&d, &candidates[i]), p.Score(&d, &candidates[j]))
			}
		}
	})
}

func TestDigest(t *testing.T) {
	prompt := func(salt int32, n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = salt*1000 + int32(i)
		}
		return ids
	}
	var d *cluster.Digest
	require.Zero(t, d.Match(cluster.PrefixHashes("", prompt(1, 128))))
	require.Empty(t, cluster.PrefixHashes("", prompt(1, cluster.ChunkTokens-1)))
	require.Len(t, cluster.PrefixHashes("", prompt(1, 100_000)), cluster.MaxChunks)

	d = &cluster.Digest{}
	d.Add(cluster.PrefixHashes("", prompt(1, 200)))
	longer := append(prompt(1, 128), prompt(2, 128)...)
	require.Equal(t, 192, d.Match(cluster.PrefixHashes("", prompt(1, 300))))
	require.Equal(t, 128, d.Match(cluster.PrefixHashes("", longer)))
	require.Zero(t, d.Match(cluster.PrefixHashes("", prompt(2, 300))))
	require.Zero(t, d.Match(cluster.PrefixHashes("salt", prompt(1, 300))))

	version := d.Version()
	d.Add(cluster.PrefixHashes("", prompt(1, 200)))
	require.Equal(t, version, d.Version(), "nothing is new")
	read, err := cluster.ParseDigest(d.AppendBinary(nil))
	require.NoError(t, err)
	require.Equal(t, 192, read.Match(cluster.PrefixHashes("", prompt(1, 300))))
	_, err = cluster.ParseDigest([]byte("short"))
	require.Error(t, err)
}

// A digest keeps the latest prefixes, forgets old ones, and is seldom wrong about
// what it never saw.
func TestDigestAges(t *testing.T) {
	var d cluster.Digest
	at := func(i int) []uint64 {
		ids := make([]int32, cluster.ChunkTokens)
		ids[0], ids[1] = int32(i), int32(i>>16)
		return cluster.PrefixHashes("", ids)
	}
	const n = 10_000
	for i := range n {
		d.Add(at(i))
	}
	for i := n - 800; i < n; i++ {
		require.Equal(t, cluster.ChunkTokens, d.Match(at(i)), "one of the latest")
	}
	wrong := 0
	for i := n; i < 2*n; i++ {
		if d.Match(at(i)) > 0 {
			wrong++
		}
	}
	require.Less(t, wrong, n/20)
	old := 0
	for i := range n / 2 {
		if d.Match(at(i)) > 0 {
			old++
		}
	}
	require.Less(t, old, n/2/10)
}
