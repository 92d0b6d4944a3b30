package actors

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// timer is what of a time.Timer is used, so that tests can fire it by hand.
type timer interface {
	Stop() bool
	Reset(time.Duration) bool
}

func afterFunc(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }

// health is the state that Engine.Health and Generate look at.
type health int32

const (
	healthServing     health = iota
	healthRecovering         // the batcher died; a new one is on its way
	healthUnavailable        // for longer than the recovery timeout
	healthStopped
)

// environment is what all actors of an engine share. Its fields do not change.
type environment struct {
	root      *actor.RootContext
	strategy  actor.SupervisorStrategy
	tokenizer *tokenizer.Tokenizer
	series    []*metrics.Engine // by batcher; nil = none
	logger    *slog.Logger
	clock     func() int64
	after     func(time.Duration, func()) timer
	abandoned *abandonment
	admission *admission
	registry  *registry
	health    *atomic.Int32

	perRequestMetrics bool
	perChoiceMetrics  bool
	breakdown         bool
	specLevel         metrics.SpecLevel
	numSpecTokens     int // most draft tokens of a step; 0 = no speculation
	streamInterval    int
	stepTimeout       time.Duration // 0 = none
	recoveryTimeout   time.Duration

	onCommit func(*scheduler.Scheduler) // nil but in tests

	cluster   *membership                     // nil = the engine is in none
	devices   atomic.Pointer[[]*BatcherReady] // those of this node that live, for lookers-on
	vocabSize int
	// compileForm compiles a grammar of another node's sequence; see Engine.fromWireForm.
	compileForm func(context.Context, []byte) (infer.Grammar, *infer.Error)

	goodSteps atomic.Uint64 // steps that ended well, of all batchers
	failures  atomic.Uint64 // batchers that died
	seqIDs    atomic.Uint64 // the latest
	// acquittals counts the sequences that failed alone and got a token after all.
	acquittals atomic.Uint64
}

func newEnvironment(c *Config, system *actor.ActorSystem) *environment {
	return &environment{
		root:      system.Root,
		strategy:  &stopOnFailure{logger: c.Logger},
		tokenizer: c.Tokenizer,
		series:    c.Metrics,
		logger:    c.Logger,
		clock:     c.Clock,
		after:     afterFunc,
		abandoned: newAbandonment(afterFunc, c.Logger),
		admission: &admission{
			maxReqs: c.MaxQueuedReqs, maxTokens: c.MaxQueuedTokens,
			maxRunning: c.Scheduler.MaxNumSeqs * c.DataParallelSize, clock: c.Clock,
		},
		registry:          newRegistry(),
		health:            new(atomic.Int32),
		perRequestMetrics: c.PerRequestMetrics,
		perChoiceMetrics:  c.PerChoiceMetrics,
		breakdown:         c.MetricsBreakdown,
		specLevel:         c.SpecLevel,
		streamInterval:    c.StreamInterval,
		stepTimeout:       c.StepTimeout,
		recoveryTimeout:   c.RecoveryTimeout,
		vocabSize:         c.Model.VocabSize,
		cluster:           newMembership(c.Cluster),
	}
}

// metrics returns a batcher's series. What belongs to no batcher is booked under
// the first one's.
func (e *environment) metrics(batcher int) *metrics.Engine {
	if batcher >= len(e.series) {
		return nil
	}
	return e.series[batcher]
}

func (e *environment) nextSeqID() infer.SeqID { return infer.SeqID(e.seqIDs.Add(1)) }

// livingDevices returns the batchers of this node that live.
func (e *environment) livingDevices() []*BatcherReady {
	if d := e.devices.Load(); d != nil {
		return *d
	}
	return nil
}
