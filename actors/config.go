package actors

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// Config is everything an [Engine] needs. Tokenizer, NewRunner and Model are
// required; the zero value of every other field is usable.
type Config struct {
	Tokenizer *tokenizer.Tokenizer

	// Template is the model's chat template; nil if it has none. TemplateErr says
	// why the model's own template could not be parsed: the server still serves
	// completions, and a chat gets a 400 with the reason.
	Template    *chat.Template
	TemplateErr error
	// TemplateOptions set up templates that come with a request, which are
	// refused unless TrustRequestChatTemplate.
	TemplateOptions           chat.Options
	TrustRequestChatTemplate  bool
	DefaultChatTemplateKwargs json.RawMessage // object or nil

	// ToolCallParser is the format in which the model writes calls, of those of
	// toolcall.Formats; "" = the generic one. ReasoningParser is the family of models
	// whose thoughts are told apart in chats, of reasoning.Names; "" = they are not.
	ToolCallParser, ReasoningParser string

	// NewRunner opens the device of a batcher, numbered from 0. It is called once
	// per batcher by NewEngine and once more after every failure of a step, after
	// the batcher's last runner was closed or, if a step of that does not end,
	// abandoned: an abandoned runner is closed when its step ends, if it ever does.
	// It is never called twice at a time for one batcher.
	NewRunner func(batcher int) (infer.Runner, error)
	// Scheduler: NumBlocks and BlockSize are filled in from the runner's spec;
	// MaxModelLen 0 = the model's.
	Scheduler scheduler.Config

	Model       infer.ModelInfo
	EOSTokenIDs []int32

	// DataParallelSize is the number of batchers, each with a runner, a scheduler
	// and a thread of its own; 0 = 1.
	DataParallelSize int

	// Cluster, which must listen, has devices of other nodes serve this engine's
	// sequences, and its devices those of others, as its role says; nil = neither. A
	// front has no devices: NewRunner and DataParallelSize are not used. It stays the
	// caller's, to be closed after the engine.
	Cluster *cluster.Node

	Metrics           []*metrics.Engine // by batcher; nil = no series (--disable-log-stats)
	PerRequestMetrics bool              // Final.Metrics has the times where attributable
	PerChoiceMetrics  bool              // Final.ChoiceMetrics has them where a request is several sequences
	MetricsBreakdown  bool              // and with the times, where the wall time went
	SpecLevel         metrics.SpecLevel // what Final.Metrics has of speculative decoding
	Clock             func() int64      // nanoseconds, monotonic, > 0; nil = infer.Now
	Logger            *slog.Logger      // nil = nothing is logged

	Seed        uint64 // start of the seeds drawn for requests that give none
	MaxLogprobs int    // cap on NumLogprobs and NumPromptLogprobs; -1 = the whole vocabulary

	StreamInterval int // tokens between two deltas of a choice, the first and the last aside; 0 = 1

	// MaxQueuedReqs and MaxQueuedTokens bound the sequences that wait for their
	// first step and their prompt tokens; 0 = no bound. Beyond them requests are
	// refused with CodeOverloaded.
	MaxQueuedReqs, MaxQueuedTokens int

	// StreamBufferBytes bounds what one request may have pending for its reader;
	// 0 = 1 MiB. Beyond it the request is cancelled with CancelSlowClient.
	StreamBufferBytes int

	// StepTimeout is how long a step may take before it counts as stalled, which is
	// a failure like any other; 0 = for ever. Close waits no longer than that for a
	// step either.
	StepTimeout time.Duration

	// FaultInjection lets Engine.InjectFault make steps fail.
	FaultInjection bool

	// RecoveryTimeout bounds an outage: how long requests wait for a device
	// before they fail. 0 = 30 s. The engine keeps trying after that.
	RecoveryTimeout time.Duration

	faults *faultInjector // nil without FaultInjection
}

const (
	defaultStreamBufferBytes = 1 << 20
	defaultRecoveryTimeout   = 30 * time.Second
)

// isFront reports whether all devices are other nodes'.
func (c *Config) isFront() bool { return c.Cluster != nil && !c.Cluster.Self().Role.HasDevices() }

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Tokenizer == nil:
		return c, errors.New("actors: Config.Tokenizer is nil")
	case c.NewRunner == nil && !c.isFront():
		return c, errors.New("actors: Config.NewRunner is nil")
	case c.DataParallelSize < 0:
		return c, errors.New("actors: Config.DataParallelSize is negative")
	case len(c.Metrics) > 0 && len(c.Metrics) != max(c.DataParallelSize, 1):
		return c, errors.New("actors: Config.Metrics must have one entry per batcher")
	case c.StepTimeout < 0:
		return c, errors.New("actors: Config.StepTimeout is negative")
	case len(c.Model.ServedNames) == 0:
		return c, errors.New("actors: Config.Model.ServedNames is empty")
	case c.Model.MaxModelLen <= 0 || c.Model.VocabSize <= 0:
		return c, errors.New("actors: Config.Model has no MaxModelLen or no VocabSize")
	}
	if c.Clock == nil {
		c.Clock = infer.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Scheduler.MaxModelLen == 0 {
		c.Scheduler.MaxModelLen = c.Model.MaxModelLen
	}
	c.DataParallelSize = max(c.DataParallelSize, 1)
	if c.isFront() {
		c.DataParallelSize = 0
	}
	if c.FaultInjection {
		c.faults = newFaultInjector(c.DataParallelSize)
	}
	c.StreamInterval = max(c.StreamInterval, 1)
	if c.StreamBufferBytes <= 0 {
		c.StreamBufferBytes = defaultStreamBufferBytes
	}
	if c.RecoveryTimeout <= 0 {
		c.RecoveryTimeout = defaultRecoveryTimeout
	}
	return c, nil
}
