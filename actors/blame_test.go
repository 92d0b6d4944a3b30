package actors

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

var errBoom = errors.New("boom")

// trial plays failures against sequence 1, and returns its last verdict. The device
// does as many good steps before a failure as the failure says.
type trial struct {
	crashes   Crashes
	now       int64
	goodSteps uint64
	failures  uint64

	acquittals uint64
}

// failure is a failed step with so many others aboard; -1 = not aboard itself.
type failure struct {
	others   int
	good     uint64        // good steps of others before it
	after    time.Duration // before it was begun, since the last failure
	lasted   time.Duration
	fault    error
	at       int    // tokens computed before the step
	acquits  uint64 // others that failed alone and got a token before it
	noStep   bool   // the batcher died between two steps
	numKnown int
}

func (t *trial) fail(f failure) *infer.Error {
	t.goodSteps += f.good
	t.failures++
	t.acquittals += f.acquits
	t.now += int64(f.after)
	b := &blame{fault: f.fault, began: t.now, goodSteps: t.goodSteps, failures: t.failures, acquittals: t.acquittals, patience: 30 * time.Second}
	t.now += int64(f.lasted)
	b.now = t.now
	plan := &infer.StepPlan{}
	if f.others >= 0 {
		plan.Sequences = append(plan.Sequences, infer.ScheduledSequence{SeqID: 1, StartPos: f.at, TokenIDs: make([]int32, 1)})
	}
	for i := range max(f.others, 1-len(plan.Sequences)) {
		plan.Sequences = append(plan.Sequences, infer.ScheduledSequence{SeqID: infer.SeqID(i + 2)})
	}
	if f.noStep {
		plan = nil
	}
	b.accuse(plan, f.numKnown)
	var err *infer.Error
	t.crashes, err = b.verdict(1, t.crashes)
	return err
}

func TestVerdict(t *testing.T) {
	alone, provenAlone, company, other := failure{}, failure{good: 1}, failure{others: 3}, failure{others: -1}
	named := func(id infer.SeqID) failure {
		return failure{others: 3, fault: fmt.Errorf("step: %w", &infer.SequenceFault{SeqID: id, Err: errBoom})}
	}
	for _, tc := range []struct {
		name     string
		failures []failure
		want     Crashes // without what it needs to tell proof
		code     infer.Code
	}{
		{"in company", []failure{company}, Crashes{Num: 1}, ""},
		{"in company only, however often", []failure{company, company, company, company, company, company, company, company, company}, Crashes{Num: 9}, ""},
		{"not aboard", []failure{{others: -1}}, Crashes{}, ""},
		{"alone", []failure{alone}, Crashes{Num: 1, NumLone: 1}, ""},
		{"two devices, one after the other", []failure{alone, provenAlone}, Crashes{Num: 2, NumLone: 2}, ""},
		{"three times alone, the device works", []failure{alone, alone, provenAlone}, Crashes{Num: 3, NumLone: 3}, infer.CodeEngineFault},
		{"a newcomer", []failure{company, provenAlone, provenAlone, provenAlone}, Crashes{Num: 4, NumLone: 3}, infer.CodeEngineFault},
		{"three times alone, but who knows", []failure{provenAlone, provenAlone, alone}, Crashes{Num: 3, NumLone: 3}, ""},
		{"three times alone, but the device fails others, too", []failure{alone, alone, other, provenAlone}, Crashes{Num: 3, NumLone: 3}, ""},
		{"five times alone, though it does", []failure{alone, alone, other, other, other, other, other, other, alone, alone, provenAlone},
			Crashes{Num: 5, NumLone: 5}, infer.CodeEngineFault},
		{"five times alone", []failure{alone, alone, alone, alone, alone}, Crashes{Num: 5, NumLone: 5}, infer.CodeEngineFault},
		{"five times alone, and others no less", []failure{alone, other, alone, other, alone, other, alone, other, alone}, Crashes{Num: 5, NumLone: 5}, infer.CodeEngineFault},
		{"five times alone, and others more often", []failure{alone, other, alone, other, other, alone, other, other, alone, other, alone},
			Crashes{Num: 5, NumLone: 5}, ""},
		{"each time elsewhere", []failure{{good: 1, at: 1}, {good: 1, at: 7}, {good: 1, at: 3}, {good: 1, at: 5}, {good: 1, at: 4}, {good: 1, at: 9}},
			Crashes{Num: 6, NumLone: 1}, ""},
		{"elsewhere, then always here", []failure{{good: 1, at: 1}, {good: 1, at: 7}, {good: 1, at: 7}, {good: 1, at: 7}}, Crashes{Num: 4, NumLone: 3}, infer.CodeEngineFault},
		{"devices are seen to fail by themselves", []failure{alone, alone, {good: 1, acquits: 1}, provenAlone}, Crashes{Num: 4, NumLone: 4}, ""},
		{"but not as often", []failure{alone, alone, {good: 1, acquits: 1}, provenAlone, provenAlone}, Crashes{Num: 5, NumLone: 5}, infer.CodeEngineFault},
		{"named", []failure{named(1)}, Crashes{}, infer.CodeInternal},
		{"another is named", []failure{named(2)}, Crashes{}, ""},
		{"somebody unknown is named", []failure{named(9)}, Crashes{Num: 1}, ""},
		{"outside a step all are suspects", []failure{{noStep: true, numKnown: 2}}, Crashes{Num: 1}, ""},
		{"outside a step, the only one", []failure{{noStep: true, numKnown: 1}}, Crashes{Num: 1, NumLone: 1}, ""},
		{"nothing works for too long", []failure{company, {after: 31 * time.Second}}, Crashes{Num: 2, NumLone: 1}, infer.CodeUnavailable},
		{"a step that took long to fail", []failure{company, {lasted: time.Minute}}, Crashes{Num: 2, NumLone: 1}, ""},
		{"long ago, but the device works", []failure{company, {after: time.Minute, good: 1}}, Crashes{Num: 2, NumLone: 1}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			trial := trial{now: 1}
			for i, f := range tc.failures {
				if f.fault == nil {
					f.fault = errBoom
				}
				err := trial.fail(f)
				if i < len(tc.failures)-1 || tc.code == "" {
					require.Nil(t, err, "failure %d", i)
					continue
				}
				require.NotNil(t, err)
				require.Equal(t, tc.code, err.Code)
				require.ErrorIs(t, err, errBoom)
				require.Equal(t, tc.code == infer.CodeUnavailable, err.RetryAfter > 0)
			}
			got := trial.crashes
			got.Since, got.goodAtFirst, got.goodAtLone, got.failuresAtFirst, got.acquittalsAtFirst, got.At = 0, 0, 0, 0, 0, 0
			require.Equal(t, tc.want, got)
		})
	}
}

func TestSentenceSaysSo(t *testing.T) {
	trial := trial{}
	for range 2 {
		require.Nil(t, trial.fail(failure{}))
	}
	err := trial.fail(failure{good: 1})
	require.Equal(t, "Internal server error: the engine failed 3 times at this request alone, so it was given up.", err.Message)
	require.ErrorContains(t, err, "the batcher panicked", "there is no fault")
}

func TestBlameEndsWhateverHappens(t *testing.T) {
	trial := trial{}
	for range maxCrashes - 1 {
		require.Nil(t, trial.fail(failure{noStep: true, numKnown: 9, good: 1, after: time.Minute}))
	}
	require.Equal(t, infer.CodeUnavailable, trial.fail(failure{noStep: true, numKnown: 9, good: 1, after: time.Minute}).Code)
}

func TestWhoIsIsolated(t *testing.T) {
	for _, tc := range []struct {
		crashes Crashes
		tokens  int
		want    bool
	}{
		{Crashes{}, 0, false}, {Crashes{}, 9, false},
		{Crashes{Num: 1}, 0, true}, {Crashes{Num: 1}, 1, false},
		{Crashes{Num: 2}, 0, true}, {Crashes{Num: 2}, 1, true},
	} {
		require.Equal(t, tc.want, tc.crashes.isolate(tc.tokens), "%+v", tc)
	}
}
