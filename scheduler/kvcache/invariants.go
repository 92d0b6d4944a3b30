package kvcache

import "fmt"

// CheckInvariants compares the cache's state with the tables that exist, which
// must be all tables that hold blocks. It is for tests: it visits every block.
func (c *Cache) CheckInvariants(tables []*Table) error {
	seen := make([]string, len(c.blocks)) // state found for each block
	refs := make([]int32, len(c.blocks))
	for _, t := range tables {
		for _, b := range t.blocks {
			refs[b]++
			seen[b] = "used"
		}
	}
	mark := func(b int32, state string) error {
		if seen[b] != "" {
			return fmt.Errorf("block %d is %s and %s", b, seen[b], state)
		}
		seen[b] = state
		return nil
	}
	if err := c.walkLists(mark); err != nil {
		return err
	}
	used := 0
	for i := range c.blocks {
		if seen[i] == "" {
			return fmt.Errorf("block %d is lost", i)
		}
		if seen[i] == "used" {
			used++
		}
		if err := c.checkBlock(int32(i), seen[i], refs[i]); err != nil {
			return err
		}
	}
	if free, cached := c.NumFree(), c.NumCached(); free+cached+used != len(c.blocks) {
		return fmt.Errorf("%d free + %d cached + %d used != %d blocks", free, cached, used, len(c.blocks))
	}
	return c.checkHashes()
}

// walkLists visits every block that is not used and checks the lists' links.
func (c *Cache) walkLists(mark func(b int32, state string) error) error {
	n := 0
	for b := c.free.top; b != none; b = c.blocks[b].next {
		if err := mark(b, "free"); err != nil {
			return err
		}
		n++
	}
	if n != c.free.len {
		return fmt.Errorf("free list holds %d blocks, not %d", n, c.free.len)
	}
	for b := c.numTouched; int(b) < len(c.blocks); b++ {
		if err := mark(b, "free"); err != nil {
			return err
		}
	}
	n = 0
	prev := none
	for b := c.idle.oldest; b != none; prev, b = b, c.blocks[b].next {
		if err := mark(b, "cached"); err != nil {
			return err
		}
		if c.blocks[b].prev != prev {
			return fmt.Errorf("cached block %d: previous is %d, not %d", b, c.blocks[b].prev, prev)
		}
		n++
	}
	if n != c.idle.len || prev != c.idle.newest {
		return fmt.Errorf("cached list holds %d blocks to %d, not %d to %d", n, prev, c.idle.len, c.idle.newest)
	}
	return nil
}

// checkBlock checks that a block's fields fit the state it was found in.
func (c *Cache) checkBlock(b int32, state string, refs int32) error {
	blk := &c.blocks[b]
	if blk.refs != refs {
		return fmt.Errorf("block %d: %d references counted, %d tables list it", b, blk.refs, refs)
	}
	if state == "cached" && !blk.hashed || state == "free" && blk.hashed {
		return fmt.Errorf("block %d is %s with hashed=%t", b, state, blk.hashed)
	}
	return nil
}

// checkHashes checks that the index and the blocks agree.
func (c *Cache) checkHashes() error {
	hashed := 0
	for i := range c.blocks {
		if !c.blocks[i].hashed {
			continue
		}
		hashed++
		if b, ok := c.byHash[c.blocks[i].hash]; !ok || b != int32(i) {
			return fmt.Errorf("block %d is hashed, but the index says %d, %t", i, b, ok)
		}
	}
	if hashed != len(c.byHash) {
		return fmt.Errorf("%d blocks are hashed, %d are in the index", hashed, len(c.byHash))
	}
	return nil
}
