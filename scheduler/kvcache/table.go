package kvcache

// Table is the block table of one sequence. It is made by [NewTable] and changed
// only by a [Cache]; it must not be copied once in use.
type Table struct {
	blocks []int32 // block of positions i*BlockSize …, used state

	// hashes are those of the sequence's full blocks, as far as they were
	// needed. Tokens are only ever appended, so they stay right when the blocks
	// are released and the sequence is computed anew.
	hashes []Hash
	root   Hash // parent of hashes[0]

	// numOffered counts the leading blocks that need not be offered to the
	// prefix cache again: found there, registered, or duplicates.
	numOffered int
}

// NewTable returns an empty table for a sequence whose cached blocks are
// separated from those of other salts.
func NewTable(salt string) Table { return Table{root: rootHash(salt)} }

// Blocks returns the block numbers in position order. The elements stay
// unchanged until the table is released; callers must not write to them.
func (t *Table) Blocks() []int32 { return t.blocks }

// Reserve makes room for numBlocks blocks, so that growing to there does not
// allocate.
func (t *Table) Reserve(numBlocks int) {
	if cap(t.blocks) < numBlocks {
		t.blocks = append(make([]int32, 0, numBlocks), t.blocks...)
	}
	if cap(t.hashes) < numBlocks {
		t.hashes = append(make([]Hash, 0, numBlocks), t.hashes...)
	}
}

// hash returns the hash of full block i of tokens, computing the chain up to it.
func (t *Table) hash(h *hasher, tokens []int32, i int) Hash {
	size := (len(h.buf) - len(t.root)) / 4
	for n := len(t.hashes); n <= i; n++ {
		parent := t.root
		if n > 0 {
			parent = t.hashes[n-1]
		}
		t.hashes = append(t.hashes, h.block(parent, tokens[n*size:(n+1)*size]))
	}
	return t.hashes[i]
}
