// Package kvcache keeps the books of a paged key-value cache: which blocks are
// free, which sequence holds which, and which hold contents worth finding again.
//
// It is a pure state machine: it touches no key, no value, no clock and no
// goroutine, and one goroutine uses it at a time. A block is a numbered run of
// BlockSize slots, one slot per token position; a [Table] lists the blocks of
// one sequence, first positions first.
//
// Each block is in exactly one state, so that free + cached + used = total:
//
//   - used: at least one table lists it. Several tables may share a block whose
//     contents were computed; only the last, unshared blocks of a table are
//     written.
//   - cached: no table lists it, but its contents are known by their [Hash] and
//     a later sequence may pick it up. The least recently used one is evicted
//     when no free block is left.
//   - free: no table lists it and nothing can find its contents.
//
// Contents are found by a chain of SHA-256 hashes over full blocks: the hash of
// block i covers the hash of block i-1 and the tokens of block i, and the chain
// starts from the sequence's salt. Equal hashes therefore mean equal tokens at
// equal positions after equal prefixes under an equal salt, which is all that
// keys and values depend on.
//
// The caller's duties, in order, for one sequence:
//
//  1. [Cache.Match] and [Cache.Attach], once, before the first step.
//  2. [Cache.Grow] before each step, for the positions that the step writes.
//  3. [Cache.Commit] after each step that succeeded. Only now do full blocks
//     become findable; what an aborted or failed step wrote never does.
//  4. [Cache.Release] at the end or at preemption, or [Cache.Discard] if the
//     sequence failed, so that nothing it held is found again.
package kvcache
