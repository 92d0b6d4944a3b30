// Package scheduler decides which tokens of which sequences the next step of the
// model computes, in the way of vLLM's v1 engine: continuous batching under one
// token budget per step, chunked prefill, paged blocks with prefix caching
// (package kvcache), preemption by recompute, fcfs and priority policies.
//
// A [Scheduler] is a pure state machine. It knows no time, no goroutine, no
// device and no randomness: the same calls give the same plans. One goroutine
// uses it at a time. The caller's duties, in order:
//
//  1. [Scheduler.Add] sequences at any time. Each sequence added gets exactly
//     one terminal [Output], from Commit or from Abort.
//  2. [Scheduler.Schedule] when no plan is outstanding. nil means that there is
//     nothing to do until something is added.
//  3. Run the plan. It stays unchanged until Commit, blocks included.
//     [Scheduler.ObserveStep] may tell how long it took.
//  4. [Scheduler.Commit] the result and pass on the outputs. If the step failed
//     as a whole there is nothing to commit: drop the Scheduler together with
//     the cache contents and add the sequences, with their output so far, to a
//     new one.
//
// # Order
//
// All sequences have one total order, their rank: with the fcfs policy that of
// arrival, and with the priority policy (Priority, Arrival, order of adding).
// If there are several keys, fcfs holds within a key, and the keys take turns by
// weight (see share.go), so that one key's burst does not starve another. Those that
// an earlier scheduler had selected before it failed come before those that it had
// not. Waiting sequences are admitted by rank, and when blocks run out the running sequence of highest
// rank, the youngest or least important one, is preempted: it loses its blocks,
// keeps its output tokens, and waits with its old rank, which puts it ahead of
// everything of its key that arrived later. A preempted sequence is computed again as a
// prefill of prompt and output, and the position of its next draw is the same.
// No livelock is possible: the sequence of lowest rank is never preempted for
// another, so it advances whenever its kind of step comes.
//
// # Budget
//
// A step computes at most MaxNumBatchedTokens tokens. Every running sequence
// that decodes gets its token first. What remains is for prefills:
//
//   - With chunked prefill, prefills are served in rank order, running ones
//     first, from three quarters of it. The last quarter is kept for short
//     prefills, those of at most a quarter of MaxNumBatchedTokens, so that they
//     pass a long one on its way: the short request's first token comes before
//     the long one's, and the long one is slowed down by at most a quarter.
//     Nothing is wasted: what short prefills leave of their quarter goes back
//     to the others in rank order. With the priority policy a short prefill
//     passes only prefills that are no more important than itself.
//   - If the last chunk of a long prefill and the first token of a younger short
//     one fall into the same step, the long one's very last token is left for
//     the next step, where it has the rank of a decode. That delays it once, by
//     one step, and makes the promise above strict.
//   - With ITLTarget, and while sequences decode, all prefills together get as many
//     tokens of a step as fit into that time beside the decodes, by what steps took
//     so far ([Scheduler.ObserveStep]), but some always. An isolated sequence's step
//     is not limited.
//   - LongPrefillTokenThreshold, if set, also bounds every chunk, as in vLLM.
//   - Without chunked prefill a prompt is computed in one step or waits, and
//     nothing passes it.
//
// A sequence is admitted only if the blocks for all its tokens are available
// beside those that running prefills still need, so a prefill is not admitted
// just to be preempted half-way. If the first in line does not fit, nothing
// younger is admitted, or it might wait for ever.
//
// # Isolation
//
// An isolated sequence, one suspected of killing steps, never shares a step.
// Steps of the others and steps of isolated sequences alternate while there are
// both, the others first: if the device does not work at all, they should be the
// ones to find out. Isolated sequences take turns, those that were tried less often
// first, then by rank. A turn lasts until the sequence has a token, so that a long
// prefill comes to its end however many others wait, and nobody new is let in before.
package scheduler
