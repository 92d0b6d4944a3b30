package kvcache_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

func newCache(t require.TestingT, numBlocks, blockSize int) *kvcache.Cache {
	c, err := kvcache.New(kvcache.Config{NumBlocks: numBlocks, BlockSize: blockSize, EnablePrefixCaching: true})
	require.NoError(t, err)
	return c
}

// ids makes tokens start, start+1, …
func ids(start int32, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = start + int32(i)
	}
	return tokens
}

// compute takes tokens through a whole step: match, attach, grow, commit. The
// last token is never taken from the cache.
func compute(t require.TestingT, c *kvcache.Cache, salt string, tokens []int32) (*kvcache.Table, int) {
	table := kvcache.NewTable(salt)
	m := c.Match(&table, tokens[:len(tokens)-1])
	found := m.NumTokens
	c.Attach(&table, m)
	require.True(t, c.Grow(&table, len(tokens)))
	c.Commit(&table, tokens)
	return &table, found
}

func TestNewRefusesBadSizes(t *testing.T) {
	for _, c := range []kvcache.Config{{NumBlocks: 0, BlockSize: 1}, {NumBlocks: 1, BlockSize: 0}, {NumBlocks: -1, BlockSize: 1}} {
		_, err := kvcache.New(c)
		var coded *infer.Error
		require.ErrorAs(t, err, &coded)
		require.Contains(t, coded.Message, "must be in [1, 2147483647]")
	}
}

// Full blocks only, at block edges k*B-1, k*B, k*B+1.
func TestMatchFindsFullBlocks(t *testing.T) {
	c := newCache(t, 16, 4)
	table, found := compute(t, c, "", ids(0, 11))
	require.Zero(t, found)
	c.Release(table)
	require.Equal(t, 2, c.NumCached())
	for n, want := range map[int]int{3: 0, 4: 4, 5: 4, 7: 4, 8: 8, 9: 8, 11: 8, 12: 8, 30: 8} {
		fresh := kvcache.NewTable("")
		m := c.Match(&fresh, ids(0, n))
		require.Equal(t, want, m.NumTokens, "of %d tokens", n)
		require.Equal(t, want/4, m.NumBlocks())
		require.Equal(t, want/4, m.NumIdle)
	}
}

// A block is found by all that its contents depend on.
func TestMatchDependsOnPrefixAndSalt(t *testing.T) {
	c := newCache(t, 16, 2)
	table, _ := compute(t, c, "salt", []int32{1, 2, 3, 4, 5})
	c.Release(table)
	for _, tc := range []struct {
		salt   string
		tokens []int32
		want   int
	}{
		{"salt", []int32{1, 2, 3, 4}, 4},
		{"salt", []int32{1, 2, 3, 5}, 2},
		{"salt", []int32{3, 4}, 0},
		{"salt", []int32{1, 3, 3, 4}, 0},
		{"salt", []int32{2, 1}, 0},
		{"", []int32{1, 2, 3, 4}, 0},
		{"sal", []int32{1, 2, 3, 4}, 0},
	} {
		fresh := kvcache.NewTable(tc.salt)
		m := c.Match(&fresh, tc.tokens)
		require.Equal(t, tc.want, m.NumTokens, "%q %v", tc.salt, tc.tokens)
	}
}

func TestNothingIsFoundBeforeCommit(t *testing.T) {
	c := newCache(t, 16, 4)
	writing, reading := kvcache.NewTable(""), kvcache.NewTable("")
	require.True(t, c.Grow(&writing, 9))
	require.Zero(t, match(c, &reading, ids(0, 9)))
	c.Commit(&writing, ids(0, 4)) // a chunk
	require.Equal(t, 4, match(c, &reading, ids(0, 9)))
	c.Release(&writing) // aborted in its second chunk
	require.Equal(t, 4, match(c, &reading, ids(0, 9)))
	require.Equal(t, 1, c.NumCached())
	require.Equal(t, 15, c.NumFree())
}

func match(c *kvcache.Cache, table *kvcache.Table, tokens []int32) int {
	m := c.Match(table, tokens)
	return m.NumTokens
}

func TestSharedBlocksAreCounted(t *testing.T) {
	c := newCache(t, 8, 4)
	a, _ := compute(t, c, "", ids(0, 9))
	b, found := compute(t, c, "", ids(0, 9))
	require.Equal(t, 8, found)
	require.Equal(t, a.Blocks()[:2], b.Blocks()[:2])
	require.NotEqual(t, a.Blocks()[2], b.Blocks()[2])
	require.False(t, c.Writable(a.Blocks()[0]))
	require.True(t, c.Writable(b.Blocks()[2]))
	require.NoError(t, c.CheckInvariants([]*kvcache.Table{a, b}))
	require.Equal(t, 4, c.NumUsed())
	c.Release(a)
	require.Equal(t, 3, c.NumUsed())
	c.Release(b)
	require.Zero(t, c.NumUsed())
	require.Equal(t, 2, c.NumCached())
	require.NoError(t, c.CheckInvariants(nil))
}

func TestGrowGivesAllOrNothing(t *testing.T) {
	c := newCache(t, 3, 4)
	table := kvcache.NewTable("")
	require.True(t, c.Grow(&table, 4))
	require.True(t, c.Grow(&table, 3), "it has them already")
	require.Len(t, table.Blocks(), 1)
	require.False(t, c.Grow(&table, 13))
	require.Len(t, table.Blocks(), 1)
	require.Equal(t, 2, c.NumAvailable())
	require.True(t, c.Grow(&table, 12))
	require.NoError(t, c.CheckInvariants([]*kvcache.Table{&table}))
}

// A block that was in use lately is taken before one that never was, and that
// before the cached ones are evicted.
func TestOrderOfAllocation(t *testing.T) {
	c := newCache(t, 5, 4)
	first := kvcache.NewTable("")
	require.True(t, c.Grow(&first, 8))
	require.Equal(t, []int32{0, 1}, first.Blocks())
	c.Release(&first)
	cached, _ := compute(t, c, "", ids(0, 12))
	require.Equal(t, []int32{0, 1, 2}, cached.Blocks())
	c.Release(cached)

	next := kvcache.NewTable("")
	require.True(t, c.Grow(&next, 8))
	require.Equal(t, []int32{3, 4}, next.Blocks(), "cached blocks are kept as long as there are others")
	require.True(t, c.Grow(&next, 12))
	require.Equal(t, []int32{3, 4, 2}, next.Blocks(), "the end of a prefix is evicted first")
	reader := kvcache.NewTable("")
	require.Equal(t, 8, match(c, &reader, ids(0, 12)))
}

// Two tables that computed equal blocks at the same time: one is found, the
// other is free when its table is released.
func TestEqualBlocksComputedAtOnce(t *testing.T) {
	c := newCache(t, 8, 4)
	a, b := kvcache.NewTable(""), kvcache.NewTable("")
	require.True(t, c.Grow(&a, 5))
	require.True(t, c.Grow(&b, 5))
	c.Commit(&a, ids(0, 5))
	c.Commit(&b, ids(0, 5))
	reader := kvcache.NewTable("")
	c.Attach(&reader, c.Match(&reader, ids(0, 4)))
	require.Equal(t, a.Blocks()[:1], reader.Blocks())
	c.Release(&b)
	require.Zero(t, c.NumCached())
	require.NoError(t, c.CheckInvariants([]*kvcache.Table{&a, &reader}))
}

// A block computed anew although an unused equal one is cached takes its place.
func TestNewBlockReplacesUnusedOne(t *testing.T) {
	c := newCache(t, 8, 4)
	a, _ := compute(t, c, "", ids(0, 5))
	c.Release(a)
	b := kvcache.NewTable("")
	require.True(t, c.Grow(&b, 5))
	c.Commit(&b, ids(0, 5))
	require.Zero(t, c.NumCached())
	require.NoError(t, c.CheckInvariants([]*kvcache.Table{&b}))
	reader := kvcache.NewTable("")
	c.Attach(&reader, c.Match(&reader, ids(0, 4)))
	require.Equal(t, b.Blocks()[:1], reader.Blocks())
}

// What a failed sequence held is not found again, shared or not, and those that
// share it keep it.
func TestDiscard(t *testing.T) {
	c := newCache(t, 8, 4)
	failed, _ := compute(t, c, "", ids(0, 13))
	other, found := compute(t, c, "", ids(0, 9))
	require.Equal(t, 8, found)
	c.Discard(failed)
	reader := kvcache.NewTable("")
	require.Zero(t, match(c, &reader, ids(0, 13)))
	require.Len(t, other.Blocks(), 3)
	require.NoError(t, c.CheckInvariants([]*kvcache.Table{other}))
	c.Release(other)
	require.Zero(t, c.NumCached())
	require.Equal(t, 8, c.NumFree())
}

func TestCachingOff(t *testing.T) {
	c, err := kvcache.New(kvcache.Config{NumBlocks: 8, BlockSize: 4})
	require.NoError(t, err)
	a, _ := compute(t, c, "", ids(0, 9))
	_, found := compute(t, c, "", ids(0, 9))
	require.Zero(t, found)
	c.Release(a)
	require.Zero(t, c.NumCached())
}

func TestAttachToATableInUsePanics(t *testing.T) {
	c := newCache(t, 8, 4)
	table, _ := compute(t, c, "", ids(0, 9))
	require.Panics(t, func() { c.Attach(table, kvcache.Match{}) })
}

// TestAgainstModel compares what can be found with a slow model that holds
// prefixes as strings and the unused ones in a plain list, oldest first.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(t, "block_size")
		numBlocks := rapid.IntRange(1, 10).Draw(t, "blocks")
		m := &model{t: t, c: newCache(t, numBlocks, size), size: size, free: numBlocks, found: map[string]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"compute": func(t *rapid.T) {
				m.compute(rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 8).Draw(t, "tokens"))
			},
			"release": func(t *rapid.T) {
				if len(m.held) == 0 {
					t.Skip("no table")
				}
				m.release(rapid.IntRange(0, len(m.held)-1).Draw(t, "table"))
			},
			"": func(*rapid.T) { m.check() },
		})
	})
}

// held is a table in use, and the prefixes that its blocks stand for: "" for a
// block that cannot be found.
type held struct {
	table    *kvcache.Table
	prefixes []string
}

type model struct {
	t     *rapid.T
	c     *kvcache.Cache
	size  int
	held  []held
	free  int
	idle  []string       // prefixes of cached blocks, least recently used first
	found map[string]int // tables that hold the findable block of a prefix; 0 = idle
}

func (m *model) prefix(tokens []int32, block int) string {
	return fmt.Sprint(tokens[:(block+1)*m.size])
}

func (m *model) compute(tokens []int32) {
	hits := 0
	for hits < (len(tokens)-1)/m.size {
		if _, ok := m.found[m.prefix(tokens, hits)]; !ok {
			break
		}
		hits++
	}
	idle := 0
	for i := range hits {
		if m.found[m.prefix(tokens, i)] == 0 {
			idle++
		}
	}
	need := (len(tokens)+m.size-1)/m.size - hits
	table := kvcache.NewTable("")
	match := m.c.Match(&table, tokens[:len(tokens)-1])
	require.Equal(m.t, hits*m.size, match.NumTokens)
	require.Equal(m.t, idle, match.NumIdle)
	if need > m.free+len(m.idle)-idle {
		return
	}
	m.c.Attach(&table, match)
	require.True(m.t, m.c.Grow(&table, len(tokens)))
	m.c.Commit(&table, tokens)

	h := held{table: &table}
	for i := range hits {
		h.prefixes = append(h.prefixes, m.prefix(tokens, i))
		m.use(h.prefixes[i])
	}
	for range need {
		if m.free > 0 {
			m.free--
		} else {
			delete(m.found, m.idle[0])
			m.idle = m.idle[1:]
		}
	}
	for i := hits; i < hits+need; i++ {
		h.prefixes = append(h.prefixes, m.commit(tokens, i))
	}
	m.held = append(m.held, h)
}

// use takes a prefix out of the unused ones if it is there.
func (m *model) use(prefix string) {
	if m.found[prefix] == 0 {
		i := slices.Index(m.idle, prefix)
		m.idle = slices.Delete(m.idle, i, i+1)
	}
	m.found[prefix]++
}

// commit makes a full block findable, unless an equal one is in use.
func (m *model) commit(tokens []int32, block int) string {
	if (block+1)*m.size > len(tokens) {
		return ""
	}
	prefix := m.prefix(tokens, block)
	holders, known := m.found[prefix]
	if known && holders > 0 {
		return ""
	}
	if known {
		m.use(prefix)
		m.free++
	}
	m.found[prefix] = 1
	return prefix
}

func (m *model) release(i int) {
	h := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	m.c.Release(h.table)
	for _, prefix := range slices.Backward(h.prefixes) {
		if prefix == "" {
			m.free++
			continue
		}
		if m.found[prefix]--; m.found[prefix] == 0 {
			m.idle = append(m.idle, prefix)
		}
	}
}

func (m *model) check() {
	tables := make([]*kvcache.Table, len(m.held))
	for i := range m.held {
		tables[i] = m.held[i].table
	}
	require.NoError(m.t, m.c.CheckInvariants(tables))
	require.Equal(m.t, m.free, m.c.NumFree())
	require.Equal(m.t, len(m.idle), m.c.NumCached())
}

func BenchmarkMatch(b *testing.B) {
	c := newCache(b, 1024, 16)
	tokens := ids(0, 8192)
	table, _ := compute(b, c, "", tokens)
	c.Release(table)
	b.ReportAllocs()
	for b.Loop() {
		fresh := kvcache.NewTable("")
		fresh.Reserve(512)
		if m := c.Match(&fresh, tokens); m.NumTokens != len(tokens) {
			b.Fatal("not found")
		}
	}
}
