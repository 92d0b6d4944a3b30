package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countTask counts how often each chunk ran, and panics in one of them.
type countTask struct {
	runs    []atomic.Int32
	workers int
	fail    int // chunk that panics, -1 = none
	value   any
	bad     atomic.Int32 // chunks with a worker number out of range
}

func (t *countTask) run(chunk, worker int) {
	if worker < 0 || worker >= t.workers {
		t.bad.Add(1)
	}
	t.runs[chunk].Add(1)
	if chunk == t.fail {
		panic(t.value)
	}
}

func newCountTask(chunks, threads int) *countTask {
	return &countTask{runs: make([]atomic.Int32, chunks), workers: threads, fail: -1}
}

func (t *countTask) requireOnce(tb testing.TB) {
	require.Zero(tb, t.bad.Load())
	for i := range t.runs {
		require.EqualValues(tb, 1, t.runs[i].Load(), "chunk %d of %d", i, len(t.runs))
	}
}

func TestPoolRunsEveryChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := newPool(threads)
		for i := range 3000 {
			task := newCountTask(i%17, threads)
			p.run(task, i%17)
			task.requireOnce(t)
		}
		p.close()
	}
}

func TestPoolPanicReachesTheCaller(t *testing.T) {
	cause := errors.New("no such lane")
	for _, threads := range []int{1, 2, 4} {
		p := newPool(threads)
		for i := range 200 {
			task := newCountTask(9, threads)
			task.fail, task.value = i%9, cause
			got := func() (v any) {
				defer func() { v = recover() }()
				p.run(task, 9)
				return nil
			}()
			err, ok := got.(error)
			require.True(t, ok, "panicked with %v", got)
			require.ErrorIs(t, err, cause)
			if threads > 1 {
				task.requireOnce(t)
				require.Contains(t, err.Error(), "countTask", "the message has the stack of the chunk")
			}
			after := newCountTask(9, threads)
			p.run(after, 9)
			after.requireOnce(t)
		}
		p.close()
	}
}

func TestPoolPanicThatIsNoError(t *testing.T) {
	p := newPool(2)
	defer p.close()
	task := newCountTask(2, 2)
	task.fail, task.value = 1, "text"
	require.PanicsWithError(t, fmt.Sprint(panicOf(p, task)), func() { panic(panicOf(p, task)) })
	require.NoError(t, errors.Unwrap(panicOf(p, task).(error)))
}

// panicOf returns what run panics with, without the stack's addresses.
func panicOf(p *pool, task *countTask) (v any) {
	defer func() {
		v = recover()
		v.(*taskPanic).stack = nil
	}()
	p.run(task, 2)
	return nil
}

func TestPoolClosesWhileWorkersSleepOrSpin(t *testing.T) {
	for i := range 50 {
		p := newPool(4)
		task := newCountTask(i, 4)
		p.run(task, i)
		task.requireOnce(t)
		p.close()
		p.close()
	}
}
