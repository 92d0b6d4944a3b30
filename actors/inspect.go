package actors

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/troupe-llm/troupe/infer"
)

var _ infer.Inspector = (*Engine)(nil)

// liveSequence is what others may see of a sequence while it runs. Its actor
// writes it, with plain atomic stores, so that nobody who looks holds up a token.
type liveSequence struct {
	numTokens, numCached, numRecoveries atomic.Int64
	waiting                             atomic.Bool // for a batcher
	finished                            atomic.Bool
}

// Requests implements infer.Inspector. Those that wait are numbered in order of
// arrival; a priority, or the turn of another key, may let one pass.
func (e *Engine) Requests() []infer.RequestInfo {
	var jobs []*job
	for _, s := range e.env.registry.streams() {
		if s.job != nil {
			jobs = append(jobs, s.job)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.request.Arrival, b.request.Arrival), cmp.Compare(a.sequences[0].id, b.sequences[0].id))
	})
	infos := make([]infer.RequestInfo, len(jobs))
	queued := 0
	for i, j := range jobs {
		infos[i] = j.info()
		if infos[i].Phase == infer.PhaseQueued {
			queued++
			infos[i].QueuePosition = queued
		}
	}
	return infos
}

// CancelRequest implements infer.Inspector. A request that is cancelled already
// does not count as live.
func (e *Engine) CancelRequest(id string) bool {
	found := false
	for _, s := range e.env.registry.streams() {
		if s.id == id && s.cancel(infer.CancelAdmin) {
			found = true
		}
	}
	return found
}

// info describes a job as it is now.
func (j *job) info() infer.RequestInfo {
	info := infer.RequestInfo{
		ID: j.request.ID, Key: j.request.Key, Arrival: j.request.Arrival, Priority: j.request.Priority,
		NumPromptTokens: j.numPromptTokens, NumSequences: len(j.sequences),
		NumCachedTokens: j.numCachedTokens(func(i int) int { return int(j.sequences[i].live.numCached.Load()) }),
	}
	furthest := -1
	for i := range j.sequences {
		s := &j.sequences[i]
		info.NumOutputTokens += int(s.live.numTokens.Load())
		info.NumRecoveries = max(info.NumRecoveries, int(s.live.numRecoveries.Load()))
		if !s.live.finished.Load() {
			furthest = max(furthest, s.phase())
		}
	}
	info.Phase = infer.PhaseDecode // all have finished: the end is on its way
	if furthest >= 0 {
		info.Phase = phases[furthest]
	}
	return info
}

// phases are those of a sequence, in the order in which they count for a request.
var phases = [...]infer.RequestPhase{infer.PhaseWaitingForDevice, infer.PhaseQueued, infer.PhasePrefill, infer.PhaseDecode}

// phase returns an index of phases.
func (s *sequenceSpec) phase() int {
	switch {
	case s.live.waiting.Load():
		return 0
	case s.live.numTokens.Load() > 0:
		return 3
	case s.place.left.Load():
		return 2
	default:
		return 1
	}
}
