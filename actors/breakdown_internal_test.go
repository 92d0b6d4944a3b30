package actors

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

// An output is a line of the cache, and its details fill what is allocated for them.
func TestOutputsStaySmall(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(SequenceOutput{}))
	require.EqualValues(t, 144, unsafe.Sizeof(OutputDetails{}))
}

// TestAccountsOfABatcher: two sequences whose steps end by a clock that the test moves.
func TestAccountsOfABatcher(t *testing.T) {
	w := newWorkbench(t)
	w.env.breakdown = true
	pid, d, _ := w.newBatcher(testkit.DeviceOptions{})
	first, second := w.add(1, 6), w.add(2, 3)
	first.account, second.account = new(metrics.Account), new(metrics.Account)
	w.send(pid, first)
	w.clock.Advance(1000)
	w.send(pid, second) // on its way while the first is in its prefill
	require.True(t, d.Runner().Finish())
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, &metrics.Lapse{Prefill: 1000}, out.details().Lapse)
	require.Zero(t, out.Stalled)

	w.clock.Advance(400) // one token of the first, three of the second's prompt
	require.True(t, d.Runner().Finish())
	outputs := testkit.TakeOf[*SequenceOutput](w.recorder)
	require.Len(t, outputs, 2)
	require.EqualValues(t, 300, outputs[0].Stalled)
	require.Nil(t, outputs[0].Details, "a stall is in the output itself")
	require.Equal(t, &metrics.Lapse{Prefill: 400}, outputs[1].details().Lapse)

	w.clock.Advance(50) // both decode: nothing is said, and nothing allocated for it
	require.True(t, d.Runner().Finish())
	for _, out := range testkit.TakeOf[*SequenceOutput](w.recorder) {
		require.Zero(t, out.Stalled)
		require.Nil(t, out.Details)
	}
}

// Without an account a batcher keeps none, even if others have one.
func TestNoAccountIsKeptUnlessAsked(t *testing.T) {
	w := newWorkbench(t)
	pid, d, b := w.newBatcher(testkit.DeviceOptions{})
	m := w.add(1, 3)
	w.send(pid, m)
	require.Nil(t, b.sequences[1].account)
	w.clock.Advance(10)
	require.True(t, d.Runner().Finish())
	require.Nil(t, one(t, testkit.TakeOf[*SequenceOutput](w.recorder)).Details.Lapse)
	require.Nil(t, newBreakdown(w.env, &job{}))
	require.Nil(t, (*breakdown)(nil).handOut())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		(*breakdown)(nil).note(&SequenceOutput{})
		(*breakdown)(nil).observeGap(1)
		b.keepAccounts(nil, 1)
	}))
}

// TestAccountGoesOnWithTheNextBatcher: from the last good step to the end of the one that
// computes the same again, all time is a failure's, and then none.
func TestAccountGoesOnWithTheNextBatcher(t *testing.T) {
	w := newWorkbench(t)
	w.env.breakdown = true
	first, d, _ := w.newBatcher(testkit.DeviceOptions{})
	m := w.add(1, 6)
	m.account = new(metrics.Account)
	w.send(first, m)
	w.clock.Advance(100)
	require.True(t, d.Runner().Finish())
	out := one(t, testkit.TakeOf[*SequenceOutput](w.recorder))

	again := *m
	again.OutputTokenIDs, again.Stamps = out.NewTokenIDs, out.Details.Stamps
	w.clock.Advance(30) // a step that fails, and the time until another batcher lives
	second, d2, _ := w.newBatcher(testkit.DeviceOptions{})
	w.clock.Advance(7)
	w.send(second, &again)
	w.clock.Advance(50)
	require.True(t, d2.Runner().Finish())
	out = one(t, testkit.TakeOf[*SequenceOutput](w.recorder))
	require.Equal(t, &metrics.Lapse{Recovering: 87, NumRecomputedTokens: 6}, out.details().Lapse)
	w.clock.Advance(5)
	require.True(t, d2.Runner().Finish())
	require.Nil(t, one(t, testkit.TakeOf[*SequenceOutput](w.recorder)).Details)

	// One that had not been scheduled when its batcher died has not left the queue.
	queued := w.add(2, 3)
	queued.account = new(metrics.Account)
	require.Same(t, queued.account, openAccount(queued))
	require.Equal(t, metrics.Account{}, *queued.account)
}
