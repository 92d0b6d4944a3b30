package model

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// step executes plans one after another with memory that is reused. It belongs
// to the runner's goroutine.
type step struct {
	pass
	sampler  rowSampler
	guide    guide
	proposer proposer // nil = no speculation

	rows []logitsRow // rows of the batch whose logits are needed, in plan order
	ids  []int32     // their numbers, parallel to rows

	result infer.StepResult // of the last step
	// Where this step's results go; the receiver of the result owns them.
	tokens   []int32               // backing of all NewTokenIDs
	logprobs []infer.TokenLogprobs // backing of all Logprobs
}

// rowSampler is what a step needs of a [sampling.Sampler].
type rowSampler interface {
	Sample(r sampling.Row) (token int32, lp infer.TokenLogprobs, err error)
	Logprobs(logits []float32, token int32, numTop int) infer.TokenLogprobs
}

// logitsRow is a row of the batch whose logits are needed.
type logitsRow struct {
	row    int32 // in the batch
	seq    int32 // in the plan
	target int32 // the prompt token to describe, or sampleRow
	draft  int32 // of a row to sample: how many draft tokens come before the draw
}

// sampleRow as a target asks for a new token.
const sampleRow = -1

// execute runs one step. A panic becomes an error with its stack; one that
// occurs while a sequence's row is sampled becomes an *infer.SequenceFault.
func (s *step) execute(plan *infer.StepPlan) (res *infer.StepResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			res, err = nil, fmt.Errorf("model: panic in step %d: %v\n%s", plan.StepID, v, debug.Stack())
		}
	}()
	res = s.newResult(plan)
	if err := s.prepare(plan, res); err != nil {
		return nil, err
	}
	if len(s.batch.TokenIDs) == 0 {
		return res, nil
	}
	s.forward()
	if err := s.readLogits(plan, res); err != nil {
		return nil, err
	}
	s.awaitMask(res)
	if s.proposer != nil {
		if err := s.proposer.propose(plan, res); err != nil {
			return nil, fmt.Errorf("model: step %d: draft: %w", plan.StepID, err)
		}
	}
	// Also when no logits were read: the plan's memory is in use until now.
	if err := s.room.backend.Sync(); err != nil {
		return nil, fmt.Errorf("model: step %d: %w", plan.StepID, err)
	}
	return res, nil
}

// newResult returns an empty result for a plan, in the memory of the last one.
func (s *step) newResult(plan *infer.StepPlan) *infer.StepResult {
	n := len(plan.Sequences)
	clear(s.result.Sequences)
	s.result.StepID = plan.StepID
	s.result.Sequences = slices.Grow(s.result.Sequences[:0], n)[:n]
	return &s.result
}

// prepare lays the plan out as a batch and lists the rows whose logits are
// needed.
func (s *step) prepare(plan *infer.StepPlan, res *infer.StepResult) error {
	b := &s.batch
	b.TokenIDs, b.Positions, b.SlotMapping = b.TokenIDs[:0], b.Positions[:0], b.SlotMapping[:0]
	b.Seqs, s.rows, s.ids, s.queries.Seqs = b.Seqs[:0], s.rows[:0], s.ids[:0], s.queries.Seqs[:0]
	samples, withLogprobs := 0, 0
	for i := range plan.Sequences {
		p := &plan.Sequences[i]
		if len(p.TokenIDs) == 0 {
			continue
		}
		if err := s.checkShare(p); err != nil {
			return fmt.Errorf("model: step %d: %w", plan.StepID, err)
		}
		s.addTokens(p, &res.Sequences[i])
		s.addRows(p, int32(i))
		if n := numPromptLogprobs(p); n > 0 {
			res.Sequences[i].PromptLogprobs = make([]infer.TokenLogprobs, 0, n)
		}
		if p.Sample {
			samples += 1 + p.NumDraftTokens
			if p.Params.NumLogprobs >= 0 {
				withLogprobs += 1 + p.NumDraftTokens
			}
		}
	}
	s.queries.TokenIDs, s.queries.Positions, s.queries.SlotMapping = b.TokenIDs, b.Positions, b.SlotMapping
	s.guide.begin()
	s.tokens = make([]int32, 0, samples)
	s.logprobs = nil
	if withLogprobs > 0 {
		s.logprobs = make([]infer.TokenLogprobs, 0, withLogprobs)
	}
	return nil
}

// checkShare refuses what would write outside the buffers or the cache. It
// finds mistakes of the scheduler, not of clients.
func (s *step) checkShare(p *infer.ScheduledSequence) error {
	m, kv := s.model, &s.model.sizes.kv
	end := p.StartPos + len(p.TokenIDs)
	switch {
	case len(s.batch.TokenIDs)+len(p.TokenIDs) > m.maxTokens:
		return fmt.Errorf("the plan has more than max_num_batched_tokens %d tokens", m.maxTokens)
	case p.StartPos < 0 || end > m.sizes.maxModelLen:
		return fmt.Errorf("sequence %d: positions %d to %d are outside the context of %d tokens", p.SeqID, p.StartPos, end-1, m.sizes.maxModelLen)
	case p.NumDraftTokens < 0 || p.NumDraftTokens >= len(p.TokenIDs) || p.NumDraftTokens > len(p.OutputTokenIDs):
		return fmt.Errorf("sequence %d: %d draft tokens among %d to be computed and %d of output",
			p.SeqID, p.NumDraftTokens, len(p.TokenIDs), len(p.OutputTokenIDs))
	case len(p.BlockTable) < blocksFor(end, kv.BlockSize):
		return fmt.Errorf("sequence %d: %d blocks of %d tokens do not hold %d tokens", p.SeqID, len(p.BlockTable), kv.BlockSize, end)
	}
	for _, block := range p.BlockTable {
		if block < 0 || int(block) >= kv.NumBlocks {
			return fmt.Errorf("sequence %d: block %d is not one of the %d there are", p.SeqID, block, kv.NumBlocks)
		}
	}
	return nil
}

// addTokens appends a sequence's rows to the batch. A token id outside the
// vocabulary fails that sequence alone: it is computed with token 0 in its place.
func (s *step) addTokens(p *infer.ScheduledSequence, res *infer.SequenceResult) {
	b, blockSize := &s.batch, s.model.sizes.kv.BlockSize
	end := p.StartPos + len(p.TokenIDs)
	b.Seqs = append(b.Seqs, compute.BatchSeq{
		QueryStart: len(b.TokenIDs), QueryLen: len(p.TokenIDs), ContextLen: end,
		BlockTable: p.BlockTable[:blocksFor(end, blockSize)],
	})
	for i, id := range p.TokenIDs {
		if id < 0 || int(id) >= s.model.config.VocabSize {
			res.Err = infer.Errorf(infer.CodeInvalid, "prompt",
				"token id %d is outside the vocabulary of %d tokens", id, s.model.config.VocabSize)
			id = 0
		}
		pos := p.StartPos + i
		b.TokenIDs = append(b.TokenIDs, id)
		b.Positions = append(b.Positions, int32(pos))
		b.SlotMapping = append(b.SlotMapping, p.BlockTable[pos/blockSize]*int32(blockSize)+int32(pos%blockSize))
	}
}

// numPromptLogprobs returns how many prompt tokens this share of p predicts and
// has to describe: those after its first position, as far as they are there.
func numPromptLogprobs(p *infer.ScheduledSequence) int {
	if p.Params.NumPromptLogprobs < 0 {
		return 0
	}
	return max(0, min(len(p.TokenIDs), len(p.PromptTokenIDs)-p.StartPos-1))
}

// addRows lists the rows of the sequence just added that need logits.
func (s *step) addRows(p *infer.ScheduledSequence, seq int32) {
	q := s.batch.Seqs[len(s.batch.Seqs)-1]
	described := numPromptLogprobs(p)
	for i := range described {
		s.need(logitsRow{row: int32(q.QueryStart + i), seq: seq, target: p.PromptTokenIDs[p.StartPos+i+1]})
	}
	if p.Sample {
		first := q.QueryStart + q.QueryLen - 1 - p.NumDraftTokens
		for i := range p.NumDraftTokens + 1 {
			s.need(logitsRow{row: int32(first + i), seq: seq, target: sampleRow, draft: int32(i)})
		}
		if described == 0 {
			q.QueryStart, q.QueryLen = first, p.NumDraftTokens+1
		}
	}
	if described > 0 || p.Sample {
		s.queries.Seqs = append(s.queries.Seqs, q)
	}
}

func (s *step) need(r logitsRow) {
	s.rows = append(s.rows, r)
	s.ids = append(s.ids, r.row)
}

// readLogits computes the needed rows' logits, as many at a time as the buffer
// holds, and samples or describes each.
func (s *step) readLogits(plan *infer.StepPlan, res *infer.StepResult) error {
	be, buffer, vocab := s.room.backend, s.room.activations.logits, s.model.config.VocabSize
	for from := 0; from < len(s.rows); {
		n := min(len(s.rows)-from, buffer.Cap())
		s.computeLogits(s.ids[from : from+n])
		if err := be.Sync(); err != nil {
			return fmt.Errorf("model: step %d: %w", plan.StepID, err)
		}
		host := be.Host(buffer, 0, n)
		for i, r := range s.rows[from : from+n] {
			logits := host[i*vocab : (i+1)*vocab : (i+1)*vocab]
			if err := s.readRow(r, logits, &plan.Sequences[r.seq], &res.Sequences[r.seq]); err != nil {
				return err
			}
		}
		from += n
	}
	return nil
}

// readRow samples or describes one row. Its error ends the whole step and says
// which sequence is to blame; what fails the sequence alone goes to res.Err.
func (s *step) readRow(r logitsRow, logits []float32, p *infer.ScheduledSequence, res *infer.SequenceResult) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.sampler = s.model.newSampler() // the old one's scratch may be half changed
			err = &infer.SequenceFault{SeqID: p.SeqID, Err: fmt.Errorf(
				"model: panic while sampling for sequence %d: %v\n%s", p.SeqID, v, debug.Stack())}
		}
	}()
	if res.Err != nil {
		return nil
	}
	if r.target != sampleRow {
		s.describe(r, logits, p, res)
		return nil
	}
	if !stands(p, res, int(r.draft)) {
		return nil
	}
	output := outputBefore(p, int(r.draft))
	allowed, ok, guideErr := s.guide.allowed(p.Matcher, output, s.model.config.VocabSize)
	switch {
	case guideErr != nil:
		res.Err = guideErr
		return nil
	case !ok: // behind an accepted draft the step has given a token already
		res.Deferred = r.draft == 0
		return nil
	}
	token, lp, sampleErr := s.sampler.Sample(sampling.Row{
		Logits: logits, Params: p.Params, Prompt: p.PromptTokenIDs, Output: output, Allowed: allowed,
	})
	if sampleErr != nil {
		res.Err = sampleErr
		return nil
	}
	// The rows of a sequence are read one after another, so what it drew lies together.
	n := len(s.tokens) + 1
	s.tokens = append(s.tokens, token)
	res.NewTokenIDs = s.tokens[n-len(res.NewTokenIDs)-1 : n : n]
	if p.Params.NumLogprobs >= 0 {
		n = len(s.logprobs) + 1
		s.logprobs = append(s.logprobs, lp)
		res.Logprobs = s.logprobs[n-len(res.Logprobs)-1 : n : n]
	}
	return nil
}

// maxMaskWait is how long a step may wait for a late mask: short, since newcomers wait
// with it, and the step counts as hung some day.
const maxMaskWait = 10 * time.Millisecond

// awaitMask waits a moment for a late mask if all sequences of the step do: the next
// step would most likely be for nothing.
func (s *step) awaitMask(res *infer.StepResult) {
	for i := range res.Sequences {
		if !res.Sequences[i].Deferred {
			return
		}
	}
	timer := time.NewTimer(maxMaskWait)
	defer timer.Stop()
	select {
	case <-s.guide.late:
	case <-timer.C:
	}
}

// describe reports a prompt token's log-probability.
func (s *step) describe(r logitsRow, logits []float32, p *infer.ScheduledSequence, res *infer.SequenceResult) {
	if !finite(logits) {
		res.Err = infer.Errorf(infer.CodeInternal, "", "the model's logits are not finite at prompt position %d",
			p.StartPos+len(res.PromptLogprobs))
		return
	}
	res.PromptLogprobs = append(res.PromptLogprobs, s.sampler.Logprobs(logits, r.target, p.Params.NumPromptLogprobs))
}

// finite reports whether no element is NaN or infinite.
func finite(row []float32) bool {
	const exponent = 0x7f800000
	for _, v := range row {
		if math.Float32bits(v)&exponent == exponent {
			return false
		}
	}
	return true
}
