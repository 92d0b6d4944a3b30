package scheduler_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

// prefixHash stands for the keys and values at a position: they depend on the
// tokens up to there and, to see that salts separate, on the salt.
func prefixHash(parent uint64, token int32) uint64 {
	h := parent ^ uint64(token+1)*0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>29
}

func rootHash(salt string) uint64 {
	h := uint64(42)
	for _, c := range salt {
		h = prefixHash(h, c)
	}
	return h
}

// hashTokens returns the hash at the last of tokens.
func hashTokens(salt string, tokens []int32) uint64 {
	h := rootHash(salt)
	for _, id := range tokens {
		h = prefixHash(h, id)
	}
	return h
}

// slot is the content of one slot of the simulated cache. pos -1 = never
// computed, or not to be used.
type slot struct {
	pos  int
	hash uint64
}

// execute runs the plan on the simulated memory: all reads see what earlier
// steps wrote.
func (m *simulation) execute() {
	for i := range m.plan.Sequences {
		q := &m.plan.Sequences[i]
		h := rootHash(m.byID(q.SeqID).opts.CacheSalt)
		tokens := slices.Concat(q.PromptTokenIDs, q.OutputTokenIDs)
		for pos := range q.StartPos {
			h = prefixHash(h, tokens[pos])
			require.Equal(m.t, slot{pos, h}, *m.slot(q, pos), "sequence %d reads position %d", q.SeqID, pos)
			require.Equal(m.t, slot{pos, h}, *m.draftSlot(q, pos), "sequence %d's draft model reads position %d", q.SeqID, pos)
		}
	}
	written := map[*slot]bool{}
	for i := range m.plan.Sequences {
		q := &m.plan.Sequences[i]
		tokens := slices.Concat(q.PromptTokenIDs, q.OutputTokenIDs)
		h := hashTokens(m.byID(q.SeqID).opts.CacheSalt, tokens[:q.StartPos])
		for pos := q.StartPos; pos < q.StartPos+len(q.TokenIDs); pos++ {
			h = prefixHash(h, tokens[pos])
			at := m.slot(q, pos)
			require.False(m.t, written[at], "two sequences write the same slot")
			written[at] = true
			require.True(m.t, m.s.Cache().Writable(q.BlockTable[pos/m.config.BlockSize]))
			*at = slot{pos, h}
		}
	}
}

// draft runs the simulated draft model after the verification of a step gave
// drawn: first over the tokens of the step that stand, then, if proposals are
// welcome, over the last token drawn and the proposals. It proposes what follows,
// or something else, as guess says.
func (m *simulation) draft(q *infer.ScheduledSequence, drawn []int32, guess func(right int32) int32) []int32 {
	end := q.StartPos + len(q.TokenIDs) - q.NumDraftTokens + max(len(drawn)-1, 0)
	tokens := slices.Concat(q.PromptTokenIDs, q.OutputTokenIDs)[:end]
	h := hashTokens(m.byID(q.SeqID).opts.CacheSalt, tokens[:q.StartPos])
	write := func(pos int, token int32) {
		require.True(m.t, m.s.Cache().Writable(q.BlockTable[pos/m.config.BlockSize]))
		h = prefixHash(h, token)
		*m.draftSlot(q, pos) = slot{pos, h}
	}
	for pos := q.StartPos; pos < end; pos++ {
		write(pos, tokens[pos])
	}
	var proposed []int32
	if len(drawn) == 0 {
		return nil
	}
	last := drawn[len(drawn)-1]
	for range q.NumProposals {
		if m.config.NumLookaheadSlots > 0 {
			write(end, last)
			m.slot(q, end).pos = -1 // a runner may write nonsense there as well
		} else {
			h = prefixHash(h, last)
		}
		end++
		last = guess(int32(h % numTokens))
		proposed = append(proposed, last)
	}
	return proposed
}

func (m *simulation) draftSlot(q *infer.ScheduledSequence, pos int) *slot {
	size := m.config.BlockSize
	return &m.draftMemory[int(q.BlockTable[pos/size])*size+pos%size]
}

func (m *simulation) slot(q *infer.ScheduledSequence, pos int) *slot {
	size := m.config.BlockSize
	return &m.memory[int(q.BlockTable[pos/size])*size+pos%size]
}

// spoil makes what the step wrote for a sequence unusable, and if the sequence
// failed also everything else in blocks that are its own.
func (m *simulation) spoil(q *infer.ScheduledSequence, failed bool) {
	for pos := q.StartPos; pos < q.StartPos+len(q.TokenIDs); pos++ {
		m.slot(q, pos).pos = -1
		m.draftSlot(q, pos).pos = -1
	}
	if !failed {
		return
	}
	for _, b := range q.BlockTable {
		shared := false
		for _, e := range m.live() {
			shared = shared || e.seq.ID != q.SeqID && slices.Contains(e.seq.Blocks(), b)
		}
		for i := range m.config.BlockSize {
			if !shared {
				m.memory[int(b)*m.config.BlockSize+i].pos = -1
				m.draftMemory[int(b)*m.config.BlockSize+i].pos = -1
			}
		}
	}
}
