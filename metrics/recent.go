package metrics

import (
	"math"
	"sync/atomic"
)

// hitWindow is the number of cache look-ups (steps that admitted sequences)
// that the log line's hit rate looks back on; vLLM looks back on as many requests.
const hitWindow = 1000

// recent is what the log line needs of the last steps. step has one writer; any
// goroutine may read the atomics.
type recent struct {
	promptTokens, generationTokens atomic.Int64 // since start; prompt tokens without the cached ones
	preemptions                    atomic.Int64 // since start
	running, waiting, deferred     atomic.Int64
	kvUsage                        atomic.Uint64 // float64 bits

	drafts, draftTokens atomic.Int64   // since start
	acceptedPerPos      []atomic.Int64 // since start, by place in the draft

	ring          [hitWindow]lookup // the writer's own
	next          int               // the writer's own: oldest entry of ring
	queries, hits atomic.Int64      // sums over ring
}

type lookup struct{ queries, hits int64 }

func (r *recent) state(s StepStats) {
	r.running.Store(int64(s.NumRunning))
	r.waiting.Store(int64(s.NumWaiting + s.NumWaitingDeferred))
	r.deferred.Store(int64(s.NumWaitingDeferred))
	r.kvUsage.Store(math.Float64bits(s.KVCacheUsage))
}

func (r *recent) step(s StepStats) {
	r.preemptions.Add(int64(s.NumPreemptions))
	if s.PrefixCacheQueries == 0 {
		return
	}
	old := r.ring[r.next]
	r.ring[r.next] = lookup{queries: int64(s.PrefixCacheQueries), hits: int64(s.PrefixCacheHits)}
	r.next = (r.next + 1) % hitWindow
	r.queries.Add(int64(s.PrefixCacheQueries) - old.queries)
	r.hits.Add(int64(s.PrefixCacheHits) - old.hits)
}

// hitRate returns the share of looked-up tokens that were found, 0 … 1.
func (r *recent) hitRate() float64 {
	queries := r.queries.Load()
	if queries <= 0 {
		return 0
	}
	return min(1, float64(r.hits.Load())/float64(queries))
}
