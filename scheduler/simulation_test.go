package scheduler_test

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// The simulated model has few tokens, so that outputs of different sequences
// often agree and blocks filled by them are shared too.
const (
	numTokens = 6
	eosToken  = 5
	stopToken = 4
)

var errInjected = errors.New("injected")

// entry is what the test knows of one sequence.
type entry struct {
	seq  *scheduler.Sequence
	opts scheduler.SequenceOptions

	// What a quiet run of this sequence alone gives.
	want       []int32
	wantReason infer.FinishReason
	wantStop   infer.StopReason

	got               []int32 // with the tokens that it was resumed with
	numPromptLogprobs int     // reported here or before
	selected          bool    // was in Scheduled
	numDrafts         int     // verified by the last step
	numAccepted       int     // of those
	abortAsked        bool
	failed            bool // an error was injected
	ended             bool
}

// simulation drives a scheduler and checks everything that it does.
type simulation struct {
	t      *rapid.T
	config scheduler.Config
	s      *scheduler.Scheduler
	memory []slot
	guess  func(right int32) int32 // what the draft model proposes where right would be right
	took   func() int64            // how long a step took; nil = nobody says
	defers func() bool             // a token is not drawn when it was asked for; nil = it always is

	draftMemory []slot
	entries     []*entry

	plan     *infer.StepPlan // outstanding, nil if none
	planCopy infer.StepPlan

	numSteps, numGenerated, numPromptDone, numPreemptions int
}

func newSimulation(t *rapid.T, c scheduler.Config) *simulation {
	s, err := scheduler.New(c)
	require.NoError(t, err)
	m := &simulation{t: t, config: c, s: s, memory: make([]slot, c.NumBlocks*c.BlockSize)}
	for i := range m.memory {
		m.memory[i].pos = -1
	}
	m.draftMemory = slices.Clone(m.memory)
	m.guess = func(right int32) int32 { return right }
	return m
}

func (m *simulation) live() []*entry {
	return slices.DeleteFunc(slices.Clone(m.entries), func(e *entry) bool { return e.ended })
}

func (m *simulation) byID(id infer.SeqID) *entry { return m.entries[id-1] }

// quietRun fills in what the sequence is expected to produce.
func (m *simulation) quietRun(e *entry) {
	p := e.opts.Params
	e.want = slices.Clone(e.opts.Output)
	h := hashTokens(e.opts.CacheSalt, slices.Concat(e.opts.Prompt, e.opts.Output))
	e.wantReason = infer.FinishLength
	for len(e.want) < p.MaxTokens && len(e.opts.Prompt)+len(e.want) < m.config.MaxModelLen {
		id := int32(h % numTokens)
		e.want = append(e.want, id)
		if stops, byRequest := p.StopsOn(id); stops {
			e.wantReason = infer.FinishStop
			if byRequest {
				e.wantStop = infer.StopReason{TokenID: id, ByToken: true}
			}
			return
		}
		h = prefixHash(h, id)
	}
}

// add submits a sequence, whose refusal must be right.
func (m *simulation) add(o scheduler.SequenceOptions) {
	o.ID = infer.SeqID(len(m.entries) + 1)
	e := &entry{opts: o, seq: scheduler.NewSequence(o), got: slices.Clone(o.Output)}
	e.numPromptLogprobs = min(o.NumPromptLogprobsDone, len(o.Prompt)-1)
	if len(o.Output) > 0 {
		e.numPromptLogprobs = len(o.Prompt) - 1
	}
	m.quietRun(e)
	err := m.s.Add(e.seq)

	c := m.config
	most := min(len(o.Prompt)+o.Params.MaxTokens, c.MaxModelLen) - 1
	room := len(o.Prompt)+len(o.Output) < c.MaxModelLen
	if o.Params.MaxTokens == 0 {
		most, room = len(o.Prompt), len(o.Prompt) <= c.MaxModelLen
	}
	fits := most <= c.NumBlocks*c.BlockSize
	if !fits || !room {
		require.Equal(m.t, infer.CodeContextLength, infer.AsError(err).Code)
		return
	}
	require.NoError(m.t, err)
	m.entries = append(m.entries, e)
}

// schedule makes the next plan and checks it.
func (m *simulation) schedule() {
	preemptions := map[*entry]int{}
	for _, e := range m.live() {
		preemptions[e] = e.seq.NumPreemptions()
	}
	oldest := m.oldest()
	m.plan = m.s.Schedule()
	for _, seq := range m.s.Scheduled() {
		require.False(m.t, m.byID(seq.ID).selected, "selected for the first time twice")
		m.byID(seq.ID).selected = true
	}
	for e, n := range preemptions {
		m.numPreemptions += e.seq.NumPreemptions() - n
	}
	require.Equal(m.t, oldest != nil, m.plan != nil, "there is a plan if and only if there is a sequence")
	if m.plan == nil {
		return
	}
	require.Equal(m.t, preemptions[oldest], oldest.seq.NumPreemptions(), "the oldest was preempted")
	m.numSteps++
	m.checkPlan(oldest)
	m.planCopy = copyPlan(m.plan)
	m.execute()
}

func (m *simulation) oldest() *entry {
	var oldest *entry
	for _, e := range m.live() {
		if oldest == nil || m.s.Before(e.seq, oldest.seq) {
			oldest = e
		}
	}
	return oldest
}

func copyPlan(p *infer.StepPlan) infer.StepPlan {
	c := *p
	c.Sequences = slices.Clone(p.Sequences)
	for i := range c.Sequences {
		q := &c.Sequences[i]
		q.TokenIDs = slices.Clone(q.TokenIDs)
		q.BlockTable = slices.Clone(q.BlockTable)
		q.PromptTokenIDs = slices.Clone(q.PromptTokenIDs)
		q.OutputTokenIDs = append([]int32{}, q.OutputTokenIDs...)
	}
	return c
}

// checkPlan compares the plan with what the test knows of its sequences.
func (m *simulation) checkPlan(oldest *entry) {
	total, decodes := 0, 0
	isolated := m.byID(m.plan.Sequences[0].SeqID).opts.Isolate
	oldestAboard := false
	for i := range m.plan.Sequences {
		q := &m.plan.Sequences[i]
		e := m.byID(q.SeqID)
		oldestAboard = oldestAboard || e == oldest
		require.False(m.t, e.ended, "an ended sequence is scheduled")
		require.Equal(m.t, isolated, e.opts.Isolate, "an isolated sequence shares its step")
		require.Equal(m.t, e.opts.Prompt, q.PromptTokenIDs)
		numOutput := len(q.OutputTokenIDs) - q.NumDraftTokens
		require.Equal(m.t, append([]int32{}, e.got...), append([]int32{}, q.OutputTokenIDs[:numOutput]...))
		m.checkDrafts(q, e)
		tokens := slices.Concat(e.opts.Prompt, q.OutputTokenIDs)
		end := q.StartPos + len(q.TokenIDs)
		require.NotEmpty(m.t, q.TokenIDs)
		require.Equal(m.t, tokens[q.StartPos:end], q.TokenIDs)
		require.Equal(m.t, end == len(tokens) && e.opts.Params.MaxTokens > 0, q.Sample)
		slots := end + min(q.NumProposals, m.config.NumLookaheadSlots)
		require.Len(m.t, q.BlockTable, (slots+m.config.BlockSize-1)/m.config.BlockSize)
		if !m.config.EnableChunkedPrefill {
			require.Equal(m.t, len(tokens), end, "a prefill is chunked")
		} else if limit := m.config.LongPrefillTokenThreshold; limit > 0 {
			require.LessOrEqual(m.t, len(q.TokenIDs)-q.NumDraftTokens, limit)
		}
		total += len(q.TokenIDs)
		if end == len(tokens) && len(q.TokenIDs) == 1+q.NumDraftTokens {
			decodes++
		}
	}
	require.Equal(m.t, total, m.plan.NumTokens)
	require.LessOrEqual(m.t, total, m.config.MaxNumBatchedTokens)
	require.False(m.t, isolated && len(m.plan.Sequences) > 1, "an isolated sequence shares its step")
	if oldest.seq.Running() && oldest.opts.Isolate == isolated && !isolated {
		// Decodes come before a prefill, else the oldest is always served.
		require.True(m.t, oldestAboard || oldest.seq.Remaining() > 1 && m.config.MaxNumBatchedTokens == decodes,
			"the oldest does not advance")
	}
}

// checkDrafts: drafts are verified by sequences that decode, no more than can be
// of use, and are asked for only then.
func (m *simulation) checkDrafts(q *infer.ScheduledSequence, e *entry) {
	room := min(e.opts.Params.MaxTokens-len(e.got), m.config.MaxModelLen-len(e.opts.Prompt)-len(e.got)) - 1
	require.LessOrEqual(m.t, q.NumDraftTokens, min(m.config.NumSpecTokens, max(room, 0)))
	require.LessOrEqual(m.t, q.NumProposals, min(m.config.NumSpecTokens, max(room-1, 0)))
	if q.NumDraftTokens > 0 {
		require.Len(m.t, q.TokenIDs, 1+q.NumDraftTokens)
		require.True(m.t, q.Sample)
	}
	if !q.Sample || e.opts.Isolate {
		require.Zero(m.t, q.NumProposals)
	}
}

// commit answers the plan, failing the sequences that fail chooses.
func (m *simulation) commit(fail func() bool) {
	require.Equal(m.t, m.planCopy, copyPlan(m.plan), "the plan changed before Commit")
	res := &infer.StepResult{StepID: m.plan.StepID}
	for i := range m.plan.Sequences {
		q := &m.plan.Sequences[i]
		e := m.byID(q.SeqID)
		r := m.rows(q, e)
		if fail() {
			e.failed = true
			r.Err = fmt.Errorf("row: %w", errInjected)
		}
		e.numDrafts, e.numAccepted = q.NumDraftTokens, max(len(r.NewTokenIDs)-1, 0)
		if r.Deferred {
			e.numDrafts = 0
		}
		if e.failed || e.abortAsked {
			m.spoil(q, e.failed)
		}
		res.Sequences = append(res.Sequences, r)
	}
	m.plan = nil
	if m.took != nil {
		m.s.ObserveStep(m.took())
	}
	seen := map[infer.SeqID]bool{}
	for _, out := range m.s.Commit(res) {
		require.False(m.t, seen[out.Seq.ID], "two outputs for one sequence")
		seen[out.Seq.ID] = true
		m.output(&out)
	}
}

// rows is the result for one sequence. The logprobs are marked with their
// position, to see that none is lost or repeated.
func (m *simulation) rows(q *infer.ScheduledSequence, e *entry) (r infer.SequenceResult) {
	end := q.StartPos + len(q.TokenIDs)
	if q.Params.NumPromptLogprobs >= 0 {
		for pos := q.StartPos + 1; pos <= min(end, len(q.PromptTokenIDs)-1); pos++ {
			r.PromptLogprobs = append(r.PromptLogprobs, infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: int32(pos)}})
		}
	}
	switch {
	case q.Sample && m.defers != nil && m.defers():
		r.Deferred = true
	case q.Sample:
		m.verify(q, &r)
	}
	r.DraftTokenIDs = m.draft(q, r.NewTokenIDs, m.guess)
	return r
}

// verify draws after the last token before the drafts, and goes on while the
// drafts are what was drawn.
func (m *simulation) verify(q *infer.ScheduledSequence, r *infer.SequenceResult) {
	first := len(q.TokenIDs) - q.NumDraftTokens
	for i := first; i <= len(q.TokenIDs); i++ {
		// Read from memory, not from the tokens: a stale block gives a wrong token.
		id := int32(m.slot(q, q.StartPos+i-1).hash % numTokens)
		r.NewTokenIDs = append(r.NewTokenIDs, id)
		r.Logprobs = append(r.Logprobs, infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: id}})
		if i == len(q.TokenIDs) || q.TokenIDs[i] != id {
			break
		}
	}
}

// output checks one output against the quiet run.
func (m *simulation) output(out *scheduler.Output) {
	e := m.byID(out.Seq.ID)
	require.Same(m.t, e.seq, out.Seq)
	require.False(m.t, e.ended, "an output after the terminal one")
	if e.opts.Params.MaxTokens == 0 && out.FinishReason == infer.FinishLength ||
		len(out.NewTokenIDs) > 0 && len(e.got) == 0 {
		m.numPromptDone += len(e.opts.Prompt) - out.NumCachedTokens
	}
	m.numGenerated += len(out.NewTokenIDs)
	e.got = append(e.got, out.NewTokenIDs...)
	require.Len(m.t, out.Logprobs, len(out.NewTokenIDs))
	if out.FinishReason != infer.FinishAbort && out.FinishReason != infer.FinishError {
		require.Equal(m.t, e.numDrafts, out.NumDraftTokens)
		require.Equal(m.t, e.numAccepted, out.NumAcceptedTokens)
	}
	require.Equal(m.t, len(e.got), out.NumOutputTokens)
	require.Equal(m.t, append([]int32{}, e.want[:len(e.got)]...), append([]int32{}, e.got...))
	for _, lp := range out.PromptLogprobs {
		e.numPromptLogprobs++
		require.EqualValues(m.t, e.numPromptLogprobs, lp.Token.TokenID, "prompt logprobs out of order")
	}
	if len(e.opts.Output) > 0 {
		require.LessOrEqual(m.t, out.NumCachedTokens, len(e.opts.Prompt))
	} else {
		require.Less(m.t, out.NumCachedTokens, len(e.opts.Prompt))
	}
	if out.FinishReason != infer.FinishNone {
		e.ended = true
		m.checkEnd(e, out)
	}
}

func (m *simulation) checkEnd(e *entry, out *scheduler.Output) {
	switch {
	case e.abortAsked:
		require.Equal(m.t, infer.FinishAbort, out.FinishReason)
	case e.failed:
		require.Equal(m.t, infer.FinishError, out.FinishReason)
		require.ErrorIs(m.t, out.Err, errInjected)
	default:
		require.Equal(m.t, e.wantReason, out.FinishReason)
		require.Equal(m.t, e.wantStop, out.StopReason)
		require.Equal(m.t, len(e.want), len(e.got))
		require.NoError(m.t, out.Err)
		if e.opts.Params.NumPromptLogprobs >= 0 {
			require.Equal(m.t, len(e.opts.Prompt)-1, e.numPromptLogprobs, "prompt logprobs are missing")
		}
	}
	require.Empty(m.t, e.seq.Blocks(), "an ended sequence holds blocks")
}

// abort asks for the end of a sequence.
func (m *simulation) abort(e *entry) {
	aboard := false
	if m.plan != nil {
		aboard = slices.ContainsFunc(m.plan.Sequences, func(q infer.ScheduledSequence) bool { return q.SeqID == e.seq.ID })
	}
	out, ok := m.s.Abort(e.seq.ID)
	require.Equal(m.t, !aboard && !e.ended, ok)
	if !e.ended {
		e.abortAsked = true
	}
	if ok {
		m.output(&out)
	}
}

// drain runs until nothing is left, and checks the books.
func (m *simulation) drain() {
	limit := m.numSteps + 1000
	for _, e := range m.live() {
		limit += 20 * (len(e.opts.Prompt) + len(e.want))
	}
	never := func() bool { return false }
	for m.plan != nil || len(m.live()) > 0 {
		if m.plan != nil {
			m.commit(never)
		}
		m.schedule()
		require.NoError(m.t, m.s.CheckInvariants())
		require.Less(m.t, m.numSteps, limit, "no progress")
	}
	cache, st := m.s.Cache(), m.s.Stats()
	require.Zero(m.t, cache.NumUsed())
	require.Equal(m.t, m.config.NumBlocks, cache.NumFree()+cache.NumCached())
	require.Equal(m.t, m.numGenerated, st.NumGenerationTokens)
	require.Equal(m.t, m.numPromptDone, st.NumPromptTokensDone)
	require.Equal(m.t, m.numPreemptions, st.NumPreemptions)
	require.LessOrEqual(m.t, st.PrefixCacheHits, st.PrefixCacheQueries)
	require.Equal(m.t, scheduler.Stats{}, m.s.Stats(), "idle, and nothing new since the last call")
	require.False(m.t, math.IsNaN(st.KVUsage))
}
