package model

import (
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// draftProposer guesses with a smaller model of the same vocabulary. Its KV cache
// has the same blocks as the target's, so block tables, prefix cache and
// preemption hold for both: every step it computes the very tokens that the target
// computed, less the rejected ones. It keeps no other state between steps.
//
// It draws with the sequence's own parameters, seed and positions. The common
// noise makes it draw what the target will draw wherever the two agree.
type draftProposer struct {
	pass    *draftPass
	sampler *sampling.Sampler
	guide   guide
	drafts  []drafting
	outputs [][]int32            // memory of their outputs, by place in the first pass
	params  infer.SamplingParams // scratch: a sequence's, without logprobs
}

// drafting is a sequence that proposals are being made for.
type drafting struct {
	seq    int // in the plan
	want   int
	output []int32
	first  int // len(output) before the proposals
}

// propose implements proposer.
func (d *draftProposer) propose(plan *infer.StepPlan, res *infer.StepResult) error {
	d.guide.begin()
	d.catchUp(plan, res)
	for {
		if err := d.run(plan); err != nil {
			return err
		}
		if d.keepDrawing(plan, res); len(d.drafts) == 0 {
			return nil
		}
	}
}

// catchUp lays out the first pass: the tokens of the step that stand, and behind
// them the token drawn last for those sequences that want proposals.
func (d *draftProposer) catchUp(plan *infer.StepPlan, res *infer.StepResult) {
	d.pass.reset()
	d.drafts = d.drafts[:0]
	for i := range plan.Sequences {
		p, r := &plan.Sequences[i], &res.Sequences[i]
		if r.Err != nil || len(p.TokenIDs) == 0 {
			continue
		}
		accepted := max(len(r.NewTokenIDs)-1, 0)
		tokens := p.TokenIDs[:len(p.TokenIDs)-p.NumDraftTokens+accepted]
		want := 0
		if wantsProposals(p, r) {
			want = min(p.NumProposals, d.pass.reach(p, p.StartPos+len(tokens)))
		}
		d.pass.open(p, p.StartPos)
		d.pass.add(tokens...)
		if want > 0 {
			output := d.output(p, r, want)
			d.pass.add(output[len(output)-1])
			d.drafts = append(d.drafts, drafting{seq: i, want: want, output: output, first: len(output)})
		}
		d.pass.close(want > 0)
	}
}

// output returns a sequence's output in memory of the proposer, with room for
// proposals.
func (d *draftProposer) output(p *infer.ScheduledSequence, r *infer.SequenceResult, want int) []int32 {
	n, before := len(d.drafts), outputBefore(p, 0)
	if n == len(d.outputs) {
		d.outputs = append(d.outputs, nil)
	}
	d.outputs[n] = slices.Grow(d.outputs[n][:0], len(before)+len(r.NewTokenIDs)+want)
	return append(append(d.outputs[n], before...), r.NewTokenIDs...)
}

// run computes the pass that was laid out and draws one token for each sequence.
func (d *draftProposer) run(plan *infer.StepPlan) error {
	return d.pass.run(func(i int, logits []float32) error {
		s := &d.drafts[i]
		p := &plan.Sequences[s.seq]
		d.params = *p.Params
		d.params.NumLogprobs = -1
		allowed, ok, err := d.guide.allowed(p.Matcher, s.output, len(logits))
		token := int32(0)
		if ok && err == nil {
			token, _, err = d.sampler.Sample(sampling.Row{
				Logits: logits, Params: &d.params, Prompt: p.PromptTokenIDs, Output: s.output, Allowed: allowed,
			})
		}
		if !ok || err != nil {
			s.want = 0 // a guess that cannot be made is no failure
			return nil
		}
		s.output = append(s.output, token)
		return nil
	})
}

// keepDrawing hands in what is complete and lays out the pass of the others.
func (d *draftProposer) keepDrawing(plan *infer.StepPlan, res *infer.StepResult) {
	going := d.drafts[:0]
	d.pass.reset()
	for _, s := range d.drafts {
		p := &plan.Sequences[s.seq]
		proposed := s.output[s.first:]
		ends := false
		if n := len(proposed); n > 0 {
			ends, _ = p.Params.StopsOn(proposed[n-1])
		}
		if len(proposed) >= s.want || ends {
			if p.Matcher != nil {
				p.Matcher.Rollback(max(p.Matcher.NumAccepted()-s.first, 0)) // the proposals are no output yet
			}
			res.Sequences[s.seq].DraftTokenIDs = slices.Clone(proposed)
			continue
		}
		d.pass.open(p, len(p.PromptTokenIDs)+len(s.output)-1)
		d.pass.add(s.output[len(s.output)-1])
		d.pass.close(true)
		going = append(going, s)
	}
	d.drafts = going
}

// draftPass lays out and runs passes of the draft model.
type draftPass struct {
	pass
	ids []int32 // rows whose logits are needed

	table []int32 // of the sequence being laid out
	pos   int     // of its next token
	start int     // its first row
}

func (p *draftPass) reset() {
	b := &p.batch
	b.TokenIDs, b.Positions, b.SlotMapping, b.Seqs = b.TokenIDs[:0], b.Positions[:0], b.SlotMapping[:0], b.Seqs[:0]
	p.queries.Seqs, p.ids = p.queries.Seqs[:0], p.ids[:0]
}

// reach returns for how many positions from pos on there are slots and a place in
// the context.
func (p *draftPass) reach(s *infer.ScheduledSequence, pos int) int {
	return max(min(len(s.BlockTable)*p.model.sizes.kv.BlockSize, p.model.sizes.maxModelLen)-pos, 0)
}

// open begins a sequence whose tokens start at position pos.
func (p *draftPass) open(s *infer.ScheduledSequence, pos int) {
	p.table, p.pos, p.start = s.BlockTable, pos, len(p.batch.TokenIDs)
}

func (p *draftPass) add(tokens ...int32) {
	size := p.model.sizes.kv.BlockSize
	for _, id := range tokens {
		p.batch.TokenIDs = append(p.batch.TokenIDs, id)
		p.batch.Positions = append(p.batch.Positions, int32(p.pos))
		p.batch.SlotMapping = append(p.batch.SlotMapping, p.table[p.pos/size]*int32(size)+int32(p.pos%size))
		p.pos++
	}
}

func (p *draftPass) lastRow() int32 { return int32(len(p.batch.TokenIDs) - 1) }

// close ends a sequence; sample says whether its last row's logits are needed.
func (p *draftPass) close(sample bool) {
	q := compute.BatchSeq{
		QueryStart: p.start, QueryLen: len(p.batch.TokenIDs) - p.start, ContextLen: p.pos,
		BlockTable: p.table[:blocksFor(p.pos, p.model.sizes.kv.BlockSize)],
	}
	if q.QueryLen == 0 {
		return
	}
	p.batch.Seqs = append(p.batch.Seqs, q)
	if sample {
		last := p.lastRow()
		q.QueryStart, q.QueryLen = int(last), 1
		p.queries.Seqs = append(p.queries.Seqs, q)
		p.ids = append(p.ids, last)
	}
}

// run computes the batch and gives each wanted row's logits to read, in order.
func (p *draftPass) run(read func(i int, logits []float32) error) error {
	if len(p.batch.TokenIDs) == 0 {
		return nil
	}
	b, be, buffer := &p.batch, p.room.backend, p.room.activations.logits
	p.queries.TokenIDs, p.queries.Positions, p.queries.SlotMapping = b.TokenIDs, b.Positions, b.SlotMapping
	p.forward()
	vocab := p.model.config.VocabSize
	for from := 0; from < len(p.ids); {
		n := min(len(p.ids)-from, buffer.Cap())
		p.computeLogits(p.ids[from : from+n])
		if err := be.Sync(); err != nil {
			return fmt.Errorf("model: draft: %w", err)
		}
		host := be.Host(buffer, 0, n)
		for i := range n {
			if err := read(from+i, host[i*vocab:(i+1)*vocab:(i+1)*vocab]); err != nil {
				return err
			}
		}
		from += n
	}
	return be.Sync()
}
