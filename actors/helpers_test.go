package actors_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEngine starts an engine on a device; it is closed with the test, and the
// device's books are checked.
func startEngine(t testing.TB, d *testkit.Device, change func(*actors.Config)) *actors.Engine {
	t.Helper()
	c := actors.Config{
		Tokenizer: testkit.Tokenizer(), NewRunner: d.NewRunner, Scheduler: testkit.SchedulerConfig(),
		Model: testkit.Model(), EOSTokenIDs: []int32{testkit.EOS}, PerRequestMetrics: true, MaxLogprobs: 20,
	}
	c.Logger = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	if change != nil {
		change(&c)
	}
	e, err := actors.NewEngine(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, d.Check())
	})
	return e
}

// testWriter writes a log to the test's output.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// choice is what a client saw of one choice.
type choice struct {
	text     string
	tokenIDs []int32
	logprobs []infer.TokenLogprobs
	prompt   *infer.PromptInfo
	finish   infer.FinishReason
	stop     infer.StopReason
	deltas   int
}

// answer is what a client saw of a request.
type answer struct {
	choices map[int]*choice
	final   *infer.Final
}

func generate(t testing.TB, e infer.Generator, req *infer.Request) *answer {
	t.Helper()
	s, err := e.Generate(context.Background(), req)
	require.NoError(t, err)
	a, err := read(s)
	require.NoError(t, err)
	return a
}

// read reads a stream to its Final and returns the first broken promise.
func read(s infer.Stream) (*answer, error) {
	a := &answer{choices: map[int]*choice{}}
	var events []infer.Event
	for range s.Ready() {
		events = s.Drain(events[:0])
		for i, event := range events {
			if event.Final != nil {
				a.final = event.Final
				if i != len(events)-1 {
					return a, fmt.Errorf("%d events after the Final", len(events)-1-i)
				}
				return a, nil
			}
			if err := a.add(&event.Delta); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

func (a *answer) add(d *infer.Delta) error {
	c := a.choices[d.Index]
	if c == nil {
		c = &choice{}
		a.choices[d.Index] = c
	}
	if c.finish != infer.FinishNone {
		return fmt.Errorf("choice %d: a delta after its finish reason", d.Index)
	}
	if d.Prompt != nil && c.deltas > 0 {
		return fmt.Errorf("choice %d: the prompt came with delta %d", d.Index, c.deltas)
	}
	if d.Prompt != nil {
		c.prompt = d.Prompt
	}
	c.deltas++
	c.text += d.Text
	c.tokenIDs = append(c.tokenIDs, d.TokenIDs...)
	c.logprobs = append(c.logprobs, d.Logprobs...)
	c.finish, c.stop = d.FinishReason, d.StopReason
	if d.NumOutputTokens != len(c.tokenIDs) {
		return fmt.Errorf("choice %d: running total %d, but %d tokens came", d.Index, d.NumOutputTokens, len(c.tokenIDs))
	}
	return nil
}

// requireError asserts that err is an *infer.Error with a code and a message part.
func requireError(t testing.TB, err error, code infer.Code, part string) *infer.Error {
	t.Helper()
	require.Error(t, err)
	coded := infer.AsError(err)
	require.Equal(t, code, coded.Code, coded.Error())
	require.Contains(t, coded.Message, part)
	return coded
}

// prompt returns n tokens that differ by salt.
func prompt(n int, salt int32) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = 'a' + (int32(i)*7+salt*3)%26
	}
	return slices.Clip(ids)
}
