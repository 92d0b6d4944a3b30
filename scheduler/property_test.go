package scheduler_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// TestMain asks for thousands of random schedules instead of rapid's hundred,
// unless the command line says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "2000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestRandomSchedules plays random sequences, aborts and failures on small
// caches against a simulated model, which notices every block that does not hold
// exactly the reading sequence's own prefix.
func TestRandomSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, drawConfig(t))
		m.guess = func(right int32) int32 {
			if rapid.IntRange(0, 3).Draw(t, "guess") == 0 {
				return (right + 1) % numTokens
			}
			return right
		}
		m.defers = func() bool { return rapid.IntRange(0, 9).Draw(t, "defer") == 9 }
		if m.config.ITLTarget > 0 {
			m.took = func() int64 { return rapid.Int64Range(-1, 3e6).Draw(t, "took") }
		}
		fail := func() bool { return rapid.IntRange(0, 39).Draw(t, "fail") == 39 }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) { m.add(drawSequence(t)) },
			"step": func(*rapid.T) {
				if m.plan != nil {
					m.commit(fail)
				}
				m.schedule()
			},
			"commit": func(t *rapid.T) {
				if m.plan == nil {
					t.Skip("no plan is outstanding")
				}
				m.commit(fail)
			},
			"schedule twice": func(t *rapid.T) {
				if m.plan == nil {
					t.Skip("no plan is outstanding")
				}
				require.Nil(t, m.s.Schedule(), "a second plan while one is outstanding")
			},
			"abort": func(t *rapid.T) {
				if len(m.entries) == 0 {
					t.Skip("no sequence")
				}
				m.abort(rapid.SampledFrom(m.entries).Draw(t, "abort"))
			},
			"end isolation": func(t *rapid.T) {
				if len(m.entries) == 0 {
					t.Skip("no sequence")
				}
				e := rapid.SampledFrom(m.entries).Draw(t, "end isolation")
				require.Equal(t, e.opts.Isolate && !e.ended, m.s.EndIsolation(e.seq.ID))
				e.opts.Isolate = false
			},
			"": func(t *rapid.T) { require.NoError(t, m.s.CheckInvariants()) },
		})
		m.drain()
	})
}

func drawConfig(t *rapid.T) scheduler.Config {
	c := scheduler.Config{
		MaxNumSeqs:                rapid.IntRange(1, 6).Draw(t, "max_num_seqs"),
		EnableChunkedPrefill:      rapid.Bool().Draw(t, "chunked"),
		EnablePrefixCaching:       rapid.IntRange(0, 4).Draw(t, "caching") > 0,
		Policy:                    rapid.SampledFrom([]scheduler.Policy{scheduler.FCFS, scheduler.Priority}).Draw(t, "policy"),
		NumBlocks:                 rapid.IntRange(2, 16).Draw(t, "blocks"),
		BlockSize:                 rapid.IntRange(1, 4).Draw(t, "block_size"),
		LongPrefillTokenThreshold: rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "threshold"),
	}
	if c.EnableChunkedPrefill {
		c.ITLTarget = rapid.SampledFrom([]int64{0, 0, 1, 1e6}).Draw(t, "itl_target")
	}
	c.NumSpecTokens = rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "spec_tokens")
	if rapid.Bool().Draw(t, "draft model") {
		c.NumLookaheadSlots = c.NumSpecTokens
	}
	c.MaxNumBatchedTokens = c.MaxNumSeqs + rapid.IntRange(0, 20).Draw(t, "budget")
	c.MaxModelLen = rapid.IntRange(4, 40).Draw(t, "max_model_len")
	if !c.EnableChunkedPrefill {
		c.MaxNumBatchedTokens = max(c.MaxNumBatchedTokens, c.MaxModelLen)
	}
	return c
}

// drawSequence makes prompts that often share a prefix.
func drawSequence(t *rapid.T) scheduler.SequenceOptions {
	text := rapid.Int32Range(0, 1).Draw(t, "text")
	var prompt []int32
	for i := range rapid.Int32Range(1, 16).Draw(t, "shared") {
		prompt = append(prompt, (i*7+text*3)%numTokens)
	}
	tail := rapid.SliceOfN(rapid.Int32Range(0, numTokens-1), 0, 4).Draw(t, "tail")
	prompt = append(prompt, tail...)
	p := &infer.SamplingParams{
		MaxTokens:         rapid.IntRange(0, 16).Draw(t, "max_tokens"),
		NumPromptLogprobs: rapid.SampledFrom([]int{-1, -1, -1, 0}).Draw(t, "prompt_logprobs"),
		IgnoreEOS:         rapid.IntRange(0, 2).Draw(t, "ignore_eos") > 0,
		EOSTokenIDs:       []int32{eosToken},
	}
	if rapid.IntRange(0, 3).Draw(t, "stop") == 0 {
		p.StopTokenIDs = []int32{stopToken}
	}
	o := scheduler.SequenceOptions{
		Prompt:    prompt,
		Params:    p,
		Priority:  rapid.IntRange(-1, 1).Draw(t, "priority"),
		Arrival:   rapid.Int64Range(0, 3).Draw(t, "arrival"),
		CacheSalt: rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "salt"),
		Key:       rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key"),
		Weight:    rapid.IntRange(0, 3).Draw(t, "weight"),
		Isolate:   rapid.IntRange(0, 7).Draw(t, "isolate") == 7,
		NumTrials: rapid.IntRange(0, 2).Draw(t, "trials"),
	}
	o.Readmitted = rapid.IntRange(0, 5).Draw(t, "readmitted") == 5
	switch rapid.IntRange(0, 5).Draw(t, "resumed") {
	case 4:
		o.NumPromptLogprobsDone = rapid.IntRange(0, len(prompt)).Draw(t, "prompt_logprobs_done")
	case 5:
		if p.MaxTokens > 1 {
			o.Output = rapid.SliceOfN(rapid.Int32Range(0, 3), 1, p.MaxTokens-1).Draw(t, "output")
		}
	}
	return o
}

// TestShortBeforeLong: whatever the sizes, short requests that arrive while a
// long prompt is being computed get their first tokens before it, and take at
// most a quarter of the prefill budget from it.
func TestShortBeforeLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numDecodes := rapid.IntRange(0, 3).Draw(t, "decodes")
		budget := rapid.IntRange(8, 40).Draw(t, "prefill budget")
		m := newSimulation(t, scheduler.Config{
			MaxNumSeqs: budget, MaxNumBatchedTokens: budget + numDecodes, MaxModelLen: 500,
			EnableChunkedPrefill: true, NumBlocks: 1000, BlockSize: 4,
		})
		never := func() bool { return false }
		for range numDecodes {
			m.add(promptOptions(1, 400))
		}
		if numDecodes > 0 {
			m.schedule()
			m.commit(never)
		}
		m.add(promptOptions(budget+rapid.IntRange(2, 120).Draw(t, "long"), 400))
		long := m.entries[numDecodes]
		m.schedule()
		m.commit(never)
		for len(long.got) == 0 {
			remaining := long.seq.Remaining()
			for left := budget / 4; left > 0; {
				n := rapid.IntRange(1, left).Draw(t, "short")
				left -= n
				m.add(promptOptions(n, 1))
			}
			m.schedule()
			chunk := 0
			for _, q := range m.plan.Sequences {
				if q.SeqID == long.seq.ID {
					chunk = len(q.TokenIDs)
				}
			}
			require.GreaterOrEqual(t, chunk, min(budget-budget/4, max(remaining-1, 1)), "the long prefill is starved")
			m.commit(never)
			require.Len(t, m.live(), numDecodes+1, "a short request still waits")
			require.True(t, len(long.got) == 0 || remaining == 1, "the long one was as fast as the short ones")
		}
	})
}

// TestWaitingOrder: with one seat and whole prompts per step, sequences start in
// the order of priority, arrival and adding, whatever is aborted meanwhile.
func TestWaitingOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, scheduler.Config{
			MaxNumSeqs: 1, MaxNumBatchedTokens: 16, MaxModelLen: 16, NumBlocks: 64, BlockSize: 4,
			Policy: rapid.SampledFrom([]scheduler.Policy{scheduler.FCFS, scheduler.Priority}).Draw(t, "policy"),
		})
		for range rapid.IntRange(1, 40).Draw(t, "sequences") {
			o := promptOptions(rapid.IntRange(1, 8).Draw(t, "prompt"), 1) // short and long ones
			o.Priority = rapid.IntRange(0, 3).Draw(t, "priority")
			o.Arrival = rapid.Int64Range(0, 3).Draw(t, "arrival")
			m.add(o)
		}
		for len(m.live()) > 0 {
			for _, e := range rapid.SliceOfN(rapid.SampledFrom(m.live()), 0, 2).Draw(t, "abort") {
				m.abort(e)
			}
			if oldest := m.oldest(); oldest != nil {
				m.schedule()
				require.Equal(t, oldest.seq.ID, m.plan.Sequences[0].SeqID)
				m.commit(func() bool { return false })
			}
		}
	})
}

func promptOptions(numPrompt, maxTokens int) scheduler.SequenceOptions {
	return scheduler.SequenceOptions{
		Prompt: make([]int32, numPrompt),
		Params: &infer.SamplingParams{MaxTokens: maxTokens, NumPromptLogprobs: -1},
	}
}
