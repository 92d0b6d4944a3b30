package kvcache

import (
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// Config sizes a [Cache].
type Config struct {
	NumBlocks int // >= 1
	BlockSize int // tokens per block, >= 1
	// EnablePrefixCaching lets sequences share full blocks of equal prefixes.
	// Without it nothing is hashed and no block is ever in the cached state.
	EnablePrefixCaching bool
}

// Cache is the set of all blocks.
type Cache struct {
	blockSize int
	caching   bool
	hasher    hasher

	blocks []block
	byHash map[Hash]int32 // every block that can be found, used or cached

	free stack // blocks that were used before and are free
	// numTouched is the first block never used. Blocks from there on are free,
	// and taken only when no touched one is, so that memory that was never
	// written stays out of the resident set.
	numTouched int32
	idle       lru // cached blocks
	matched    []int32
}

// block is the state of one block.
type block struct {
	hash       Hash  // name of the contents; valid if hashed
	prev, next int32 // neighbours in free (next only) or idle; unused while used
	refs       int32 // tables that list the block
	hashed     bool  // findable: byHash[hash] is this block
}

// none ends the lists of blocks.
const none = int32(-1)

// New returns a cache whose blocks are all free.
func New(c Config) (*Cache, error) {
	if c.NumBlocks < 1 || c.NumBlocks > math.MaxInt32 {
		return nil, infer.Errorf(infer.CodeInvalid, "num_blocks",
			"the number of KV cache blocks must be in [1, %d], got %d", math.MaxInt32, c.NumBlocks)
	}
	if c.BlockSize < 1 || c.BlockSize > math.MaxInt32 {
		return nil, infer.Errorf(infer.CodeInvalid, "block_size",
			"block_size must be in [1, %d] tokens, got %d", math.MaxInt32, c.BlockSize)
	}
	return &Cache{
		blockSize: c.BlockSize,
		caching:   c.EnablePrefixCaching,
		hasher:    newHasher(c.BlockSize),
		blocks:    make([]block, c.NumBlocks),
		byHash:    make(map[Hash]int32),
		free:      stack{top: none},
		idle:      lru{oldest: none, newest: none},
	}, nil
}

// NumBlocks returns the number of all blocks.
func (c *Cache) NumBlocks() int { return len(c.blocks) }

// NumFree returns the number of blocks with nothing to find in them.
func (c *Cache) NumFree() int { return c.free.len + len(c.blocks) - int(c.numTouched) }

// NumCached returns the number of unused blocks whose contents can be found.
func (c *Cache) NumCached() int { return c.idle.len }

// NumAvailable returns the number of blocks that Grow can hand out.
func (c *Cache) NumAvailable() int { return c.NumFree() + c.NumCached() }

// NumUsed returns the number of blocks that tables list.
func (c *Cache) NumUsed() int { return len(c.blocks) - c.NumAvailable() }

// BlocksFor returns the number of blocks that numTokens positions take.
func (c *Cache) BlocksFor(numTokens int) int { return (numTokens + c.blockSize - 1) / c.blockSize }

// Match is a prefix found in the cache. It is valid until the next call of a
// method of the Cache that changes anything.
type Match struct {
	NumTokens int // positions covered, a multiple of the block size
	NumIdle   int // blocks among them that no table lists: attaching takes them from NumAvailable
	blocks    []int32
}

// NumBlocks returns the number of blocks found.
func (m *Match) NumBlocks() int { return len(m.blocks) }

// Match looks up the longest run of cached full blocks that tokens start with.
// The tokens given are the most that may be found: leave out what has to be
// computed in any case. t must hold no blocks.
func (c *Cache) Match(t *Table, tokens []int32) Match {
	c.matched = c.matched[:0]
	m := Match{}
	if c.caching {
		for i := range len(tokens) / c.blockSize {
			b, ok := c.byHash[t.hash(&c.hasher, tokens, i)]
			if !ok {
				break
			}
			if c.blocks[b].refs == 0 {
				m.NumIdle++
			}
			c.matched = append(c.matched, b)
		}
	}
	m.blocks = c.matched
	m.NumTokens = len(m.blocks) * c.blockSize
	return m
}

// Attach makes the blocks of m the first blocks of the empty table t.
func (c *Cache) Attach(t *Table, m Match) {
	if len(t.blocks) != 0 {
		panic(fmt.Sprintf("kvcache: attach to a table of %d blocks", len(t.blocks)))
	}
	for _, b := range m.blocks {
		if c.blocks[b].refs == 0 {
			c.idle.remove(c.blocks, b)
		}
		c.blocks[b].refs++
		t.blocks = append(t.blocks, b)
	}
	t.numOffered = len(m.blocks)
}

// Grow gives t blocks for numTokens positions in all. It gives all or none: it
// reports false, with nothing changed, if too few blocks are available.
func (c *Cache) Grow(t *Table, numTokens int) bool {
	need := c.BlocksFor(numTokens) - len(t.blocks)
	if need > c.NumAvailable() {
		return false
	}
	for range need {
		b := c.take()
		c.blocks[b].refs = 1
		t.blocks = append(t.blocks, b)
	}
	return true
}

// Commit says that the keys and values of tokens, all from position 0 on, have
// been computed in t's blocks. Full blocks become findable. If an equal block is
// in use, because two sequences computed it at the same time, that one is kept
// and t's stays private. If it is not, t's takes its place and it becomes free.
func (c *Cache) Commit(t *Table, tokens []int32) {
	if !c.caching {
		return
	}
	for full := len(tokens) / c.blockSize; t.numOffered < full; t.numOffered++ {
		h := t.hash(&c.hasher, tokens, t.numOffered)
		if old, dup := c.byHash[h]; dup {
			if c.blocks[old].refs > 0 {
				continue
			}
			c.idle.remove(c.blocks, old)
			c.forget(old)
			c.free.push(c.blocks, old)
		}
		b := t.blocks[t.numOffered]
		c.byHash[h] = b
		c.blocks[b].hash = h
		c.blocks[b].hashed = true
	}
}

// Truncate takes from t the blocks behind numTokens positions: those of rejected
// draft tokens. What they hold was never committed.
func (c *Cache) Truncate(t *Table, numTokens int) {
	keep := c.BlocksFor(numTokens)
	for i := len(t.blocks) - 1; i >= keep; i-- {
		b := t.blocks[i]
		c.blocks[b].refs--
		c.free.push(c.blocks, b)
	}
	t.blocks = t.blocks[:min(keep, len(t.blocks))]
}

// Release empties t. Blocks that no other table lists become cached or free.
func (c *Cache) Release(t *Table) {
	// Last block first: a block is of use only if all before it are still
	// there, so the end of a prefix has to be evicted before its start.
	for i := len(t.blocks) - 1; i >= 0; i-- {
		b := t.blocks[i]
		c.blocks[b].refs--
		switch {
		case c.blocks[b].refs > 0:
		case c.blocks[b].hashed:
			c.idle.push(c.blocks, b)
		default:
			c.free.push(c.blocks, b)
		}
	}
	t.blocks = t.blocks[:0]
	t.numOffered = 0
}

// Discard empties t and makes every block that it listed unfindable, shared ones
// included: their contents may be what made the sequence fail. Other tables that
// list them keep them.
func (c *Cache) Discard(t *Table) {
	for _, b := range t.blocks {
		c.forget(b)
	}
	c.Release(t)
}

// Writable reports whether a step may write to block b: one table lists it, and
// nobody can find it.
func (c *Cache) Writable(b int32) bool { return c.blocks[b].refs == 1 && !c.blocks[b].hashed }

// take removes a block from the available ones: one that was in use lately if
// there is one, for its memory is resident, then an untouched one, then the
// least recently used cached one.
func (c *Cache) take() int32 {
	if c.free.len > 0 {
		return c.free.pop(c.blocks)
	}
	if int(c.numTouched) < len(c.blocks) {
		c.numTouched++
		return c.numTouched - 1
	}
	b := c.idle.oldest
	c.idle.remove(c.blocks, b)
	c.forget(b)
	return b
}

// forget makes the contents of b unfindable.
func (c *Cache) forget(b int32) {
	if c.blocks[b].hashed {
		delete(c.byHash, c.blocks[b].hash)
		c.blocks[b].hashed = false
	}
}
