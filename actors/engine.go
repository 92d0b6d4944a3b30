package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
)

// Engine serves requests: the façade in front of the actors. It implements
// infer.Generator; all methods are safe for concurrent use.
type Engine struct {
	config        Config
	env           *environment
	supervisor    *actor.PID
	controlTokens []string // of the tokenizer
	grammars      *grammars
	enforceable   func() bool // calls in the model's own format can be forced

	drawnSeeds atomic.Uint64

	closeOnce sync.Once
	closed    chan error // the supervisor's last word
	closeErr  error      // valid after closeOnce
}

var _ infer.Generator = (*Engine)(nil)

// NewEngine opens the devices and starts the actors. The caller ends it with Close.
func NewEngine(c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{config: c, controlTokens: c.Tokenizer.ControlTokens(), grammars: newGrammars(c.Tokenizer, c.Model.VocabSize, c.EOSTokenIDs), closed: make(chan error, 1)}
	e.enforceable = sync.OnceValue(func() bool { return canEnforce(c.ToolCallParser, c.Tokenizer) })
	slots, err := openSlots(&e.config)
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		e.fitContext(slot.device.runner.Spec())
	}
	e.env = newEnvironment(&e.config, newSystem(c.Logger))
	e.env.compileForm = e.fromWireForm
	if len(slots) > 0 {
		e.env.numSpecTokens = slots[0].device.runner.Spec().NumSpecTokens
	}
	e.supervisor = e.env.root.Copy().WithGuardian(e.env.strategy).SpawnPrefix(
		actor.PropsFromProducer(func() actor.Actor {
			return &SupervisorActor{env: e.env, config: &e.config, slots: slots, remotes: newRemotes(e.env), closed: e.closed}
		}, actor.WithSupervisor(e.env.strategy)), "engine")
	e.announce()
	return e, nil
}

// openSlots opens all devices, or none.
func openSlots(c *Config) (slots []*slot, err error) {
	for i := range c.DataParallelSize {
		d, err := openDevice(c, i)
		if err != nil {
			for _, slot := range slots {
				err = errors.Join(err, slot.device.close())
			}
			return nil, err
		}
		slots = append(slots, &slot{index: i, device: d})
	}
	return slots, nil
}

// fitContext lowers the context length to what the KV cache can hold for one
// sequence, so that length is refused at the door and nowhere else.
func (e *Engine) fitContext(spec infer.RunnerSpec) {
	model := &e.config.Model
	if capacity := spec.NumBlocks * spec.BlockSize; capacity < model.MaxModelLen {
		e.config.Logger.Warn("the KV cache is smaller than one full context: the context length is lowered",
			"max_model_len", model.MaxModelLen, "capacity", capacity)
		model.MaxModelLen = capacity
	}
}

// Generate implements infer.Generator. No actor exists before the request has
// passed every check, so that each refusal is a plain error with its real status.
func (e *Engine) Generate(ctx context.Context, req *infer.Request) (infer.Stream, error) {
	if err := e.accepts(ctx); err != nil {
		return nil, err
	}
	j, err := e.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := e.accepts(ctx); err != nil { // tokenizing may have taken a while
		return nil, err
	}
	if err := e.admit(j); err != nil {
		return nil, err
	}
	return j.stream, nil
}

// accepts refuses what could not be served whatever it says, before anything is
// spent on it.
func (e *Engine) accepts(ctx context.Context) error {
	if err := givenUp(ctx); err != nil {
		return err
	}
	h := health(e.env.health.Load())
	if err := e.healthError(h); err != nil && h != healthRecovering { // a short outage is waited out in the queue
		return err
	}
	if err, reason := e.env.admission.refuse(0); err != nil {
		e.env.metrics(0).ObserveAdmissionRejection(reason)
		return err
	}
	return nil
}

// givenUp is the error of a call whose client has left, nil while it waits.
func givenUp(ctx context.Context) *infer.Error {
	if err := ctx.Err(); err != nil {
		return &infer.Error{Code: infer.CodeUnavailable, Message: "The request was given up before it was admitted.", Err: err}
	}
	return nil
}

// admit books the job's places in the queue and hands it to the supervisor.
func (e *Engine) admit(j *job) error {
	numTokens := make([]int, len(j.sequences))
	for i := range j.sequences {
		numTokens[i] = len(j.sequences[i].prompt.tokenIDs)
	}
	places, err, reason := e.env.admission.admit(numTokens)
	if err != nil {
		e.env.metrics(0).ObserveAdmissionRejection(reason)
		return err
	}
	for i := range places {
		j.sequences[i].place = places[i]
	}
	j.stream = newStream(j.request.ID, e.env.root, e.config.StreamBufferBytes)
	j.stream.job = j
	if !e.env.registry.enter(j.stream) {
		j.release()
		return draining()
	}
	e.env.root.Send(e.supervisor, &startRequest{job: j})
	return nil
}

// Model implements infer.Generator.
func (e *Engine) Model() *infer.ModelInfo { return &e.config.Model }

// Health implements infer.Generator. The error is CodeUnavailable.
func (e *Engine) Health() error { return e.healthError(health(e.env.health.Load())) }

// healthError returns what a client in state h is told; nil if it is served.
func (e *Engine) healthError(h health) error {
	switch {
	case h == healthStopped || e.env.registry.isDraining():
		return draining()
	case h == healthServing:
		return nil
	case h == healthRecovering:
		return infer.Errorf(infer.CodeUnavailable, "", "The engine is recovering from a failure.")
	default:
		err := infer.Errorf(infer.CodeUnavailable, "", "No inference device is available.")
		err.RetryAfter = lastRetry
		return err
	}
}

// drainRetryAfter is what a refused client is told while the server shuts down:
// long enough for a load balancer to notice.
const drainRetryAfter = 5 * time.Second

func draining() *infer.Error {
	err := infer.Errorf(infer.CodeUnavailable, "", "The server is shutting down.")
	err.RetryAfter = drainRetryAfter
	return err
}

// Drain stops admission and waits for the running requests. When ctx ends
// first, it cancels them with CancelShutdown, waits for their last event and
// returns ctx's error.
func (e *Engine) Drain(ctx context.Context) error {
	empty, foreign := e.env.registry.drain(), e.leave()
	if endedBefore(ctx, empty) && endedBefore(ctx, foreign) {
		return nil
	}
	e.env.registry.cancelAll(infer.CancelShutdown) // sequences of other nodes go on elsewhere
	<-empty
	return ctx.Err()
}

// endedBefore waits and reports whether ended closed before ctx's end, or at the same
// time: then nothing has to be cancelled.
func endedBefore(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// Close cancels what still runs and stops the actors, the device's thread and
// the runner, waiting for a step in flight. It returns the runner's error; later
// calls return the same.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		empty := e.env.registry.drain()
		e.env.registry.cancelAll(infer.CancelShutdown)
		<-empty
		if m := e.env.cluster; m != nil {
			m.node.Leave()
		}
		e.env.root.Stop(e.supervisor)
		e.closeErr = <-e.closed
		if m := e.env.cluster; m != nil {
			m.links.Wait()
		}
	})
	return e.closeErr
}
