package enginebench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/scheduler"
)

// Load says which model an engine runs, and how.
type Load struct {
	Name         string
	Folder       *model.Folder
	Quantization string // as of `troupe serve`
	KVCacheDType string
	Threads      int // 0 = all
	MaxNumSeqs   int // most sequences at once
	MaxTokens    int // most tokens in one step
	MaxModelLen  int // tokens of prompt and output
}

// Engine is a model with a runner, ready for steps.
type Engine struct {
	Name    string
	Spec    infer.RunnerSpec
	Weights int64         // bytes that a decode step reads of them
	Loading time.Duration // from opening to a warm runner

	backend *cpu.Backend
	model   *model.Model
	runner  *model.Runner
	config  scheduler.Config
	random  *rand.Rand
	nextID  infer.SeqID
	done    chan stepEnd
}

type stepEnd struct {
	result *infer.StepResult
	err    error
}

// Open loads a model. The engine is closed by its user.
func Open(l Load) (*Engine, error) {
	start := time.Now()
	backend, err := cpu.New(cpu.Options{Threads: l.Threads})
	if err != nil {
		return nil, err
	}
	e := &Engine{Name: l.Name, backend: backend, random: rand.New(rand.NewPCG(1, 2)), done: make(chan stepEnd, 1)}
	e.model, err = model.Load(l.Folder, model.Options{
		Backend: backend, Quantization: l.Quantization, KVCacheDType: l.KVCacheDType, MaxModelLen: l.MaxModelLen,
		MaxNumSeqs: l.MaxNumSeqs, MaxNumBatchedTokens: l.MaxTokens, GenerationConfig: "vllm",
	})
	if err == nil {
		e.runner, err = e.model.NewRunner()
	}
	if err == nil {
		err = e.runner.WarmUp()
	}
	if err != nil {
		return nil, errors.Join(l.explain(err), e.Close())
	}
	e.Spec, e.Loading, e.Weights = e.runner.Spec(), time.Since(start), e.model.DecodeBytes()
	e.config = scheduler.Config{
		MaxNumSeqs: l.MaxNumSeqs, MaxNumBatchedTokens: l.MaxTokens, MaxModelLen: e.Spec.MaxModelLen, EnableChunkedPrefill: true,
		NumBlocks: e.Spec.NumBlocks, BlockSize: e.Spec.BlockSize,
	}
	return e, nil
}

// explain says what is behind a context length for which there is no flag here.
func (l *Load) explain(err error) error {
	var coded *infer.Error
	if errors.As(err, &coded) && coded.Param == "max_model_len" {
		return fmt.Errorf("%s: --prefill, --decode, --context and --tokens need a context of %d tokens: %w", l.Name, l.MaxModelLen, err)
	}
	return fmt.Errorf("%s: %w", l.Name, err)
}

// Close frees the model.
func (e *Engine) Close() (err error) {
	if e.runner != nil {
		err = e.runner.Close()
	}
	return errors.Join(err, e.backend.Close())
}

// Prefill returns how long a prompt of so many tokens takes up to its first token.
func (e *Engine) Prefill(tokens int) (time.Duration, error) {
	r, err := e.begin(1, tokens)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for r.numStarted < 1 {
		if err := r.step(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// Decoding is what a measurement of decode steps found.
type Decoding struct {
	Took    time.Duration
	KVBytes int64 // of keys and values that all steps read
}

// Decode prefills so many sequences with prompts of so many tokens each, and measures
// how long it takes from there to draw so many tokens for each of them.
func (e *Engine) Decode(sequences, context, tokens int) (d Decoding, err error) {
	r, err := e.begin(sequences, context)
	if err != nil {
		return d, err
	}
	for r.numStarted < sequences {
		if err := r.step(); err != nil {
			return d, err
		}
	}
	r.kvBytes = 0
	start := time.Now()
	for range tokens {
		if err := r.step(); err != nil {
			return d, err
		}
		if r.stepSize != sequences {
			return d, fmt.Errorf("the KV cache of %d tokens does not hold %d sequences: a step decoded %d of them: lower --decode, --context or --tokens",
				e.config.NumBlocks*e.config.BlockSize, sequences, r.stepSize)
		}
	}
	return Decoding{Took: time.Since(start), KVBytes: r.kvBytes}, nil
}

// run is a measurement: a scheduler of its own, so that no prefix is known.
type run struct {
	engine     *Engine
	scheduler  *scheduler.Scheduler
	numStarted int   // sequences that have drawn a token
	stepSize   int   // tokens in the latest step
	kvBytes    int64 // of keys and values that steps have read
}

// begin returns a run in which sequences of random prompts wait. They draw tokens for
// as long as the context has room.
func (e *Engine) begin(sequences, prompt int) (*run, error) {
	s, err := scheduler.New(e.config)
	if err != nil {
		return nil, err
	}
	for range sequences {
		ids := make([]int32, prompt)
		for i := range ids {
			ids[i] = e.random.Int32N(int32(e.Spec.VocabSize))
		}
		e.nextID++
		err := s.Add(scheduler.NewSequence(scheduler.SequenceOptions{ID: e.nextID, Prompt: ids, Params: &infer.SamplingParams{
			MaxTokens: e.Spec.MaxModelLen - prompt, RepetitionPenalty: 1, TopP: 1, NumLogprobs: -1, NumPromptLogprobs: -1,
		}}))
		if err != nil {
			return nil, err
		}
	}
	return &run{engine: e, scheduler: s}, nil
}

// step runs one step to its end.
func (r *run) step() error {
	plan := r.scheduler.Schedule()
	if plan == nil {
		return errors.New("the sequences ended before the measurement did")
	}
	r.stepSize = plan.NumTokens
	for i := range plan.Sequences {
		s := &plan.Sequences[i]
		r.kvBytes += r.engine.model.KVReadBytes(s.StartPos + len(s.TokenIDs))
	}
	r.engine.runner.Launch(plan, func(result *infer.StepResult, err error) { r.engine.done <- stepEnd{result, err} })
	end := <-r.engine.done
	if end.err != nil {
		return end.err
	}
	for _, out := range r.scheduler.Commit(end.result) {
		if out.Err != nil {
			return out.Err
		}
		if out.NumOutputTokens == len(out.NewTokenIDs) && out.NumOutputTokens > 0 {
			r.numStarted++
		}
	}
	return nil
}
