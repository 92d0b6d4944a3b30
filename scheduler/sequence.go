package scheduler

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

// SequenceOptions are the arguments of [NewSequence].
type SequenceOptions struct {
	ID     infer.SeqID
	Prompt []int32 // >= 1 token; must not change, and may be shared between sequences
	// Output holds the tokens that the sequence already has when it is resumed
	// after a failure of its last scheduler; copied. They are computed with the
	// prompt, and the next draw is that of position len(Output).
	Output   []int32
	Params   *infer.SamplingParams
	Priority int   // lower runs earlier; priority policy only
	Arrival  int64 // lower runs earlier, among those of a Priority or a Key
	// CacheSalt separates cached prefixes: sequences share blocks only with
	// those of an equal salt.
	CacheSalt string
	// NumPromptLogprobsDone counts the prompt logprobs that a resumed sequence
	// already received; they are not reported again. With a non-empty Output it
	// is all of them, whatever is said here.
	NumPromptLogprobsDone int
	// Key names whose sequence it is, and Weight is that one's share relative to
	// others, 0 = 1; fcfs policy only.
	Key    string
	Weight int
	// Readmitted says that an earlier scheduler, which failed, had selected the
	// sequence: it has had its turn, and was counted. So it is with an Output.
	Readmitted bool
	Isolate    bool // runs in steps of its own
	NumTrials  int  // how often it had one before; those with fewer come first
	Tag        any
}

// Sequence is one prompt with the tokens generated for it. The scheduler owns it
// from Add to the terminal Output; meanwhile others may read the exported fields
// only.
type Sequence struct {
	ID        infer.SeqID
	Prompt    []int32 // never changed, possibly other sequences' too
	Params    *infer.SamplingParams
	Priority  int
	Arrival   int64
	CacheSalt string
	Key       string
	Weight    int // >= 1
	Tag       any // the caller's own; not looked at

	tokens []int32 // prompt, then output; only ever appended to. The prompt itself until it starts
	table  kvcache.Table
	order  uint64 // place in the order of adding, from 1; 0 = not added
	turn   uint64 // its place among the keys, in virtual time (share.go); 0 with the priority policy

	// State. A sequence is waiting unless running is set. Invariant:
	// 0 <= numComputed <= len(tokens)-1 between steps, both 0 and an empty
	// table while waiting.
	running      bool // holds blocks and a seat; is in Scheduler.running
	started      bool // was selected for a step before
	aborted      bool // ends at the Commit of the step in flight
	ended        bool // had its terminal Output
	isolate      bool
	numTrials    int
	waitShared   int  // of an isolated one: shared steps that come before its turn if there are any to make
	readmitted   bool // was selected by an earlier scheduler
	resumed      bool // had output when it was added
	chunked      bool // a part of its prefill was computed in an earlier step
	heapIndex    int  // place in its heap of waiting, valid while in one
	numComputed  int  // leading tokens whose keys and values are in the cache
	numScheduled int  // tokens after these in the plan outstanding, drafts included; 0 = not aboard

	matcher infer.Matcher // nil without a grammar; the runner's while the sequence is aboard

	drafts    []int32 // proposed to follow tokens; the runner's memory, read only
	numDrafts int     // of those, verified by the plan outstanding: they lie behind tokens, beyond its length
	draftLen  int     // how many to ask for

	numCachedTokens   int // prompt tokens found in the prefix cache at the first selection
	numPromptLogprobs int // prompt logprobs reported so far, of positions 1 …
	numPreemptions    int
}

// maxWaitLog bounds how long an isolated sequence waits for its next trial: 2 to that
// power steps of others.
const maxWaitLog = 4

// spareOutput is how many output tokens a sequence that starts has room for at once.
const spareOutput = 256

// NewSequence returns a sequence to be added to one scheduler, once.
func NewSequence(o SequenceOptions) *Sequence {
	tokens := slices.Clip(o.Prompt)
	if len(o.Output) > 0 {
		tokens = slices.Concat(o.Prompt, o.Output)
	}
	seq := &Sequence{
		ID:         o.ID,
		Prompt:     o.Prompt,
		Params:     o.Params,
		Priority:   o.Priority,
		Arrival:    o.Arrival,
		CacheSalt:  o.CacheSalt,
		Key:        o.Key,
		Weight:     min(max(o.Weight, 1), maxWeight),
		Tag:        o.Tag,
		tokens:     tokens,
		table:      kvcache.NewTable(o.CacheSalt),
		isolate:    o.Isolate,
		numTrials:  o.NumTrials,
		waitShared: 1<<min(max(o.NumTrials, 0), maxWaitLog) - 1,
		resumed:    len(o.Output) > 0,
	}
	seq.readmitted = o.Readmitted || seq.resumed
	lastPrompt := max(len(o.Prompt)-1, 0)
	seq.numPromptLogprobs = min(max(o.NumPromptLogprobsDone, 0), lastPrompt)
	if seq.resumed {
		seq.numPromptLogprobs = lastPrompt
	}
	return seq
}

// NumPreemptions returns how often the sequence lost its blocks to another.
func (q *Sequence) NumPreemptions() int { return q.numPreemptions }

// outputWithDrafts returns the output, and the drafts that the plan verifies.
func (q *Sequence) outputWithDrafts() []int32 {
	end := len(q.tokens) + q.numDrafts
	return q.tokens[len(q.Prompt):end:end]
}

func (q *Sequence) numOutputTokens() int { return len(q.tokens) - len(q.Prompt) }

// reserve makes room for output when a sequence starts. One that waits has no
// tokens of its own: the choices of a request share its prompt's memory, and may
// be many thousand.
func (q *Sequence) reserve() {
	if cap(q.tokens) > len(q.tokens) {
		return
	}
	spare := min(spareOutput, q.Params.MaxTokens-q.numOutputTokens())
	q.tokens = append(make([]int32, 0, len(q.tokens)+spare), q.tokens...)
}

// remaining returns the tokens still to be computed before the next draw: 1 for
// a sequence that decodes.
func (q *Sequence) remaining() int { return len(q.tokens) - q.numComputed }

// finishesPrefill reports whether the plan outstanding computes the last of a
// sequence's tokens.
func (q *Sequence) finishesPrefill() bool { return q.numScheduled == q.remaining() }

// wantsPromptLogprobs reports whether prompt logprobs are still to be reported.
func (q *Sequence) wantsPromptLogprobs() bool {
	return q.Params.NumPromptLogprobs >= 0 && q.numPromptLogprobs < len(q.Prompt)-1
}

// reusable returns the tokens whose keys and values may come from the cache. The
// last token is always computed, for its logits are wanted. The prompt logprob
// of position p comes from the logits of p-1, so where those are still to be
// reported nothing may be skipped.
func (q *Sequence) reusable() []int32 {
	n := len(q.tokens) - 1
	if q.wantsPromptLogprobs() {
		n = q.numPromptLogprobs
	}
	return q.tokens[:n]
}

// maxComputed returns how many tokens the sequence can have in the cache at
// most. The last token that it may generate is never computed.
func (q *Sequence) maxComputed(maxModelLen int) int {
	if q.Params.MaxTokens == 0 {
		return len(q.Prompt)
	}
	return min(len(q.Prompt)+q.Params.MaxTokens, maxModelLen) - 1
}

// rankFCFS orders sequences by the turn of their key, then arrival, then order of
// adding. The turns of one key's waiting sequences follow the same order.
func rankFCFS(a, b *Sequence) bool {
	if a.turn != b.turn {
		return a.turn < b.turn
	}
	return arrivedBefore(a, b)
}

func arrivedBefore(a, b *Sequence) bool {
	if a.Arrival != b.Arrival {
		return a.Arrival < b.Arrival
	}
	return a.order < b.order
}

// rankPriority orders sequences by priority, then arrival, then order of adding.
func rankPriority(a, b *Sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return arrivedBefore(a, b)
}
