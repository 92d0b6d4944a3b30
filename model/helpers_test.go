package model_test

import (
	"flag"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/compute/cuda"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

// tapped is a backend whose logits can be watched and spoiled, and whose
// operations can be made to fail. It is used from one goroutine at a time, as
// every backend, and so are its taps.
type tapped struct {
	compute.Backend
	*taps
}

// taps are those of a backend and all its forks.
type taps struct {
	onHost  func(values []float32) // called with what Host returns
	onSync  func() error           // replaces Sync's answer if not nil
	onEmbed func()                 // called at the start of every step

	forks  atomic.Int64 // not yet closed, the first backend included
	caches atomic.Int64 // made
}

func (b *tapped) Fork() (compute.Backend, error) {
	fork, err := b.Backend.Fork()
	if err != nil {
		return nil, err
	}
	b.forks.Add(1)
	return &tapped{Backend: fork, taps: b.taps}, nil
}

func (b *tapped) NewKVCache(spec compute.KVSpec) (compute.KVCache, error) {
	b.caches.Add(1)
	return b.Backend.NewKVCache(spec)
}

func (b *tapped) Close() error {
	b.forks.Add(-1)
	return b.Backend.Close()
}

func (b *tapped) Host(buf compute.Buffer, from, n int) []float32 {
	v := b.Backend.Host(buf, from, n)
	if b.onHost != nil {
		b.onHost(v)
	}
	return v
}

func (b *tapped) Sync() error {
	err := b.Backend.Sync()
	if b.onSync != nil {
		return b.onSync()
	}
	return err
}

func (b *tapped) Embed(dst compute.Buffer, table compute.Matrix, ids []int32) {
	if b.onEmbed != nil {
		b.onEmbed()
	}
	b.Backend.Embed(dst, table, ids)
}

// simulate has tests run on a simulated GPU in place of the CPU.
var simulate = flag.Bool("ptxsim", false, "run on a simulated GPU")

func newSimulatedGPU(tb testing.TB) compute.Backend {
	tb.Helper()
	dev, err := ptxsim.New(ptxsim.Options{Memory: 1 << 30}).Open(0)
	require.NoError(tb, err)
	loaded, err := cuda.Open(dev, "ptxsim:0")
	require.NoError(tb, err)
	b, err := cuda.New(cuda.Options{Device: loaded})
	require.NoError(tb, err)
	return b
}

// newBackend returns a backend that the test closes.
func newBackend(tb testing.TB) *tapped {
	tb.Helper()
	return newBackendOf(tb, cpu.Options{Threads: 2})
}

func newBackendOf(tb testing.TB, o cpu.Options) *tapped {
	tb.Helper()
	var b compute.Backend
	var err error
	if *simulate {
		b = newSimulatedGPU(tb)
	} else {
		b, err = cpu.New(o)
	}
	require.NoError(tb, err)
	tap := &tapped{Backend: b, taps: &taps{}}
	tap.forks.Add(1)
	tb.Cleanup(func() {
		require.NoError(tb, tap.Close())
		require.Zero(tb, tap.forks.Load(), "a fork is still open")
	})
	return tap
}

// options returns workable options over a new backend.
func options(tb testing.TB) model.Options {
	return model.Options{Backend: newBackend(tb), MaxNumSeqs: 64, MaxNumBatchedTokens: 1024}
}

// exactOptions is options with keys and values as wide as activations, for what is
// compared with a reference.
func exactOptions(tb testing.TB) model.Options {
	o := options(tb)
	o.KVCacheDType = "float32"
	return o
}

func load(tb testing.TB, dir string, o model.Options) *model.Model {
	tb.Helper()
	f, err := model.OpenDir(dir)
	require.NoError(tb, err)
	return loadFolder(tb, f, o)
}

func loadFolder(tb testing.TB, f *model.Folder, o model.Options) *model.Model {
	tb.Helper()
	m, err := model.Load(f, o)
	require.NoError(tb, err)
	return m
}

func newRunner(tb testing.TB, m *model.Model) *model.Runner {
	tb.Helper()
	r, err := m.NewRunner()
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, r.Close()) })
	return r
}

// launch runs one step to its end.
func launch(r infer.Runner, plan *infer.StepPlan) (*infer.StepResult, error) {
	type answer struct {
		res *infer.StepResult
		err error
	}
	c := make(chan answer, 2) // a second call of done would be seen
	r.Launch(plan, func(res *infer.StepResult, err error) { c <- answer{res, err} })
	a := <-c
	return a.res, a.err
}

// greedy returns parameters that take the likeliest token and report numTop
// alternatives.
func greedy(numTop int) *infer.SamplingParams {
	return &infer.SamplingParams{TopP: 1, RepetitionPenalty: 1, NumLogprobs: numTop, NumPromptLogprobs: -1}
}

// sequence is one sequence of the plan driver.
type sequence struct {
	prompt []int32
	params *infer.SamplingParams
	chunk  int // most tokens per step; 0 = all
	max    int // output tokens
	stop   []int32

	output         []int32
	logprobs       []infer.TokenLogprobs
	promptLogprobs []infer.TokenLogprobs
	err            error

	computed int
	blocks   []int32
}

func (s *sequence) ended() bool {
	n := len(s.output)
	if s.err != nil || n >= s.max {
		return true
	}
	for _, id := range s.stop {
		if n > 0 && s.output[n-1] == id {
			return true
		}
	}
	return false
}

// driver is the least that a scheduler can be: every unfinished sequence is in
// every step, blocks are taken in turn and never given back.
type driver struct {
	runner *model.Runner
	next   int32 // the next free block
	stepID uint64
}

// run drives sequences to their ends.
func (d *driver) run(tb testing.TB, seqs ...*sequence) {
	tb.Helper()
	for {
		plan, live := d.plan(seqs)
		if len(live) == 0 {
			return
		}
		res, err := launch(d.runner, plan)
		require.NoError(tb, err)
		require.Equal(tb, plan.StepID, res.StepID)
		require.Len(tb, res.Sequences, len(live))
		for i, s := range live {
			s.commit(tb, &plan.Sequences[i], &res.Sequences[i])
		}
	}
}

func (d *driver) plan(seqs []*sequence) (*infer.StepPlan, []*sequence) {
	d.stepID++
	plan := &infer.StepPlan{StepID: d.stepID}
	var live []*sequence
	for i, s := range seqs {
		if s.ended() {
			continue
		}
		all := append(append([]int32{}, s.prompt...), s.output...)
		end := len(all)
		if s.chunk > 0 {
			end = min(end, s.computed+s.chunk)
		}
		blockSize := d.runner.Spec().BlockSize
		for len(s.blocks)*blockSize < end {
			s.blocks = append(s.blocks, d.next)
			d.next++
		}
		plan.Sequences = append(plan.Sequences, infer.ScheduledSequence{
			SeqID: infer.SeqID(i + 1), TokenIDs: all[s.computed:end], StartPos: s.computed, BlockTable: s.blocks,
			Sample: end == len(all), Params: s.params, PromptTokenIDs: s.prompt, OutputTokenIDs: s.output,
		})
		plan.NumTokens += end - s.computed
		live = append(live, s)
	}
	return plan, live
}

func (s *sequence) commit(tb testing.TB, p *infer.ScheduledSequence, r *infer.SequenceResult) {
	s.computed += len(p.TokenIDs)
	s.err = r.Err
	s.output = append(s.output, r.NewTokenIDs...)
	s.logprobs = append(s.logprobs, r.Logprobs...)
	s.promptLogprobs = append(s.promptLogprobs, r.PromptLogprobs...)
	if r.Err == nil {
		require.Equal(tb, p.Sample, len(r.NewTokenIDs) == 1)
	}
}

// bitsOf makes rows comparable to the last bit, NaNs included.
func bitsOf(lps []infer.TokenLogprobs) []uint32 {
	var bits []uint32
	for _, lp := range lps {
		bits = append(bits, uint32(lp.Token.TokenID), math.Float32bits(lp.Token.Logprob), uint32(lp.Token.Rank))
		for _, t := range lp.Top {
			bits = append(bits, uint32(t.TokenID), math.Float32bits(t.Logprob))
		}
	}
	return bits
}
