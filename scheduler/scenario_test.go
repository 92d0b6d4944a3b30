package scheduler_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios give into testdata instead of comparing")

// TestScenarios runs the scripts of testdata. A script is a list of groups:
// commands, a line "----", what they are expected to print, an empty line.
//
//	config blocks=8 block_size=4 max_num_seqs=4 budget=64 max_model_len=64 threshold=0 chunked=on caching=on policy=fcfs
//	add NAME prompt=4 max_tokens=8 [output=2] [priority=0] [arrival=0] [salt=x] [key=k] [weight=1] [readmitted] [isolate] [trials=0] [eos=ID] [stop=ID] [prompt_logprobs]
//	step [NAME=TOKEN|err …]   commits the outstanding step, drawing the tokens given, then schedules the next
//	abort NAME
//	end_isolation NAME
//	stats
//
// A prompt is one part or several joined by "+": "sys*8+a*3" is the first eight
// tokens of the text called sys, then three of the text called a. A number
// alone is so many tokens of the sequence's own text. Drawn tokens are 500 plus
// their position in the output unless the step says otherwise.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runScenario(t, file)
		})
	}
}

func runScenario(t *testing.T, file string) {
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	sc := &script{t: t, names: map[infer.SeqID]string{}, seqs: map[string]*scheduler.Sequence{}, texts: map[string]int32{}}
	var got strings.Builder
	expecting := false
	for line := range strings.Lines(string(src)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "----":
			expecting = true
			got.WriteString("----\n" + sc.flush())
		case line == "":
			expecting = false
			got.WriteString("\n")
		case expecting:
		default:
			got.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				sc.run(line)
			}
		}
	}
	require.Empty(t, sc.flush(), "the last commands have no ---- after them")
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
		return
	}
	require.Equal(t, string(src), got.String())
}

// script is the state of one scenario.
type script struct {
	t     *testing.T
	s     *scheduler.Scheduler
	plan  *infer.StepPlan // outstanding, nil if none
	names map[infer.SeqID]string
	seqs  map[string]*scheduler.Sequence
	texts map[string]int32 // first token of each text
	out   strings.Builder
}

func (sc *script) flush() string {
	defer sc.out.Reset()
	return sc.out.String()
}

func (sc *script) printf(format string, args ...any) {
	sc.out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (sc *script) run(line string) {
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	switch words[0] {
	case "config":
		sc.config(args)
	case "add":
		sc.add(words[1], args)
	case "step":
		sc.step(args)
	case "abort":
		out, ok := sc.s.Abort(sc.seqs[words[1]].ID)
		if ok {
			sc.printOutput(&out)
		} else {
			sc.printf("abort %s: nothing yet", words[1])
		}
	case "end_isolation":
		sc.printf("end_isolation %s: %t", words[1], sc.s.EndIsolation(sc.seqs[words[1]].ID))
	case "stats":
		st := sc.s.Stats()
		sc.printf("running=%d waiting=%d deferred=%d usage=%.2f", st.NumRunning, st.NumWaiting, st.NumWaitingDeferred, st.KVUsage)
		sc.printf("prompt=%d generated=%d preemptions=%d queries=%d hits=%d", st.NumPromptTokensDone,
			st.NumGenerationTokens, st.NumPreemptions, st.PrefixCacheQueries, st.PrefixCacheHits)
	default:
		require.Fail(sc.t, "unknown command", line)
	}
	require.NoError(sc.t, sc.s.CheckInvariants(), line)
}

func (sc *script) number(args map[string]string, key string, def int) int {
	v, ok := args[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	require.NoError(sc.t, err, key)
	return n
}

func (sc *script) config(args map[string]string) {
	policy := scheduler.FCFS
	if p, ok := args["policy"]; ok {
		var err error
		policy, err = scheduler.ParsePolicy(p)
		require.NoError(sc.t, err)
	}
	s, err := scheduler.New(scheduler.Config{
		MaxNumSeqs:                sc.number(args, "max_num_seqs", 4),
		MaxNumBatchedTokens:       sc.number(args, "budget", 64),
		MaxModelLen:               sc.number(args, "max_model_len", 64),
		EnableChunkedPrefill:      args["chunked"] != "off",
		EnablePrefixCaching:       args["caching"] != "off",
		Policy:                    policy,
		NumBlocks:                 sc.number(args, "blocks", 8),
		BlockSize:                 sc.number(args, "block_size", 4),
		LongPrefillTokenThreshold: sc.number(args, "threshold", 0),
	})
	require.NoError(sc.t, err)
	sc.s = s
}

// tokens spells out a prompt.
func (sc *script) tokens(name, spec string) []int32 {
	var ids []int32
	for part := range strings.SplitSeq(spec, "+") {
		text, count, ok := strings.Cut(part, "*")
		if !ok {
			text, count = name, part
		}
		n, err := strconv.Atoi(count)
		require.NoError(sc.t, err, spec)
		if _, ok := sc.texts[text]; !ok {
			sc.texts[text] = int32(1000 * (len(sc.texts) + 1))
		}
		for i := range n {
			ids = append(ids, sc.texts[text]+int32(i))
		}
	}
	return ids
}

func (sc *script) add(name string, args map[string]string) {
	p := &infer.SamplingParams{MaxTokens: sc.number(args, "max_tokens", 8), NumLogprobs: -1, NumPromptLogprobs: -1}
	if _, ok := args["prompt_logprobs"]; ok {
		p.NumPromptLogprobs = 0
	}
	if _, ok := args["eos"]; ok {
		p.EOSTokenIDs = []int32{int32(sc.number(args, "eos", 0))}
	}
	if _, ok := args["stop"]; ok {
		p.StopTokenIDs = []int32{int32(sc.number(args, "stop", 0))}
	}
	var output []int32
	for i := range sc.number(args, "output", 0) {
		output = append(output, int32(500+i))
	}
	_, isolate := args["isolate"]
	_, readmitted := args["readmitted"]
	seq := scheduler.NewSequence(scheduler.SequenceOptions{
		ID:         infer.SeqID(len(sc.names) + 1),
		Prompt:     sc.tokens(name, args["prompt"]),
		Output:     output,
		Params:     p,
		Priority:   sc.number(args, "priority", 0),
		Arrival:    int64(sc.number(args, "arrival", 0)),
		CacheSalt:  args["salt"],
		Key:        args["key"],
		Weight:     sc.number(args, "weight", 1),
		Readmitted: readmitted,
		Isolate:    isolate,
		NumTrials:  sc.number(args, "trials", 0),
		Tag:        name,
	})
	sc.names[seq.ID] = name
	sc.seqs[name] = seq
	if err := sc.s.Add(seq); err != nil {
		sc.printf("add %s: %v", name, err)
	}
}

func (sc *script) step(args map[string]string) {
	if sc.plan != nil {
		outs := sc.s.Commit(sc.result(args))
		for i := range outs {
			sc.printOutput(&outs[i])
		}
	}
	before := map[string]int{}
	for name, seq := range sc.seqs {
		before[name] = seq.NumPreemptions()
	}
	sc.plan = sc.s.Schedule()
	sc.printPlan(before)
}

// result answers the plan as a runner would.
func (sc *script) result(args map[string]string) *infer.StepResult {
	res := &infer.StepResult{StepID: sc.plan.StepID}
	for _, q := range sc.plan.Sequences {
		var r infer.SequenceResult
		if q.Params.NumPromptLogprobs >= 0 {
			for pos := q.StartPos + 1; pos <= q.StartPos+len(q.TokenIDs) && pos < len(q.PromptTokenIDs); pos++ {
				r.PromptLogprobs = append(r.PromptLogprobs,
					infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: q.PromptTokenIDs[pos]}})
			}
		}
		arg := args[sc.names[q.SeqID]]
		switch {
		case arg == "err":
			r = infer.SequenceResult{Err: fmt.Errorf("logits are not finite")}
		case q.Sample && arg != "":
			id, err := strconv.Atoi(arg)
			require.NoError(sc.t, err)
			r.NewTokenIDs = []int32{int32(id)}
		case q.Sample:
			r.NewTokenIDs = []int32{int32(500 + len(q.OutputTokenIDs))}
		}
		res.Sequences = append(res.Sequences, r)
	}
	return res
}

func (sc *script) printPlan(before map[string]int) {
	var scheduled, blocks, suffix strings.Builder
	if sc.plan == nil {
		scheduled.WriteString(" nothing")
	} else {
		for _, q := range sc.plan.Sequences {
			fmt.Fprintf(&scheduled, " %s+%d", sc.names[q.SeqID], len(q.TokenIDs))
			fmt.Fprintf(&blocks, " %s=%d", sc.names[q.SeqID], q.BlockTable)
		}
	}
	if first := sc.s.Scheduled(); len(first) > 0 {
		suffix.WriteString("   new")
		for _, q := range first {
			suffix.WriteString(" " + sc.names[q.ID])
		}
	}
	for id := infer.SeqID(1); int(id) <= len(sc.names); id++ {
		if name := sc.names[id]; sc.seqs[name].NumPreemptions() > before[name] {
			suffix.WriteString("   preempted " + name)
		}
	}
	c := sc.s.Cache()
	sc.printf("scheduled%s   blocks%s   free=%d cached=%d%s", scheduled.String(), blocks.String(), c.NumFree(), c.NumCached(), suffix.String())
}

func (sc *script) printOutput(o *scheduler.Output) {
	line := fmt.Sprintf("output %s", sc.names[o.Seq.ID])
	if len(o.NewTokenIDs) > 0 {
		line += fmt.Sprintf(" +%d", o.NewTokenIDs)
	}
	line += fmt.Sprintf(" n=%d", o.NumOutputTokens)
	if len(o.PromptLogprobs) > 0 {
		line += fmt.Sprintf(" prompt_logprobs=%d", len(o.PromptLogprobs))
	}
	if o.FinishReason != infer.FinishNone {
		line += fmt.Sprintf("   end=%s cached=%d", o.FinishReason, o.NumCachedTokens)
	}
	if o.StopReason.ByToken {
		line += fmt.Sprintf(" stop_token=%d", o.StopReason.TokenID)
	}
	if o.Err != nil {
		line += fmt.Sprintf(" err=%q", o.Err.Error())
	}
	sc.printf("%s", line)
}
