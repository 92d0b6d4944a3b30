package reqlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/logline"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/reqlog"
	"github.com/troupe-llm/troupe/infer"
)

// script is a Generator whose streams hold fixed events.
type script struct {
	infer.Generator
	events []infer.Event
	err    error
}

func (s *script) Generate(context.Context, *infer.Request) (infer.Stream, error) {
	return &scripted{events: s.events}, s.err
}

type scripted struct {
	infer.Stream
	events []infer.Event
}

func (*scripted) ID() string { return "cmpl-1" }

func (s *scripted) Drain(buf []infer.Event) []infer.Event {
	buf = append(buf, s.events...)
	s.events = nil
	return buf
}

func events() []infer.Event {
	return []infer.Event{
		{Delta: infer.Delta{Text: "He", TokenIDs: []int32{1}}},
		{Delta: infer.Delta{Text: "llo", TokenIDs: []int32{2}, FinishReason: infer.FinishStop}},
		{Final: &infer.Final{}},
	}
}

func run(t *testing.T, g infer.Generator, o reqlog.Options, req *infer.Request) string {
	t.Helper()
	var out bytes.Buffer
	o.Logger = logline.New(&out, slog.LevelInfo)
	s, err := reqlog.Wrap(g, o).Generate(context.Background(), req)
	if err == nil {
		require.Len(t, s.Drain(nil), 3)
	}
	return out.String()
}

func request() *infer.Request {
	n := 7
	return &infer.Request{
		ID: "cmpl-1", N: 1, MaxTokens: &n, Prompts: []infer.Prompt{{Text: "sécret prompt"}, {TokenIDs: []int32{1, 2, 3}}},
		Sampling: infer.SamplingParams{Temperature: 0.5, TopP: 1, Stop: []string{"x"}},
	}
}

func TestRequestsAreLogged(t *testing.T) {
	out := run(t, &script{events: events()}, reqlog.Options{MaxLen: -1}, request())
	require.Contains(t, out, `Received request cmpl-1: prompt: "sécret prompt", [1 2 3], n: 1, params: SamplingParams(max_tokens=7, temperature=0.5, top_p=1, top_k=0, min_p=0, seed=None, stop=["x"])`)
	require.Equal(t, 1, strings.Count(out, "\n"))

	chat := &infer.Request{ID: "c", N: 1, Chat: &infer.ChatInput{Messages: []json.RawMessage{[]byte(`{"role":"user"}`)}}}
	out = run(t, &script{events: events()}, reqlog.Options{MaxLen: -1}, chat)
	require.Contains(t, out, `prompt: {"role":"user"}, n: 1, params: SamplingParams(max_tokens=None`)

	refused := run(t, &script{err: errors.New("no")}, reqlog.Options{MaxLen: -1, Outputs: true}, request())
	require.Equal(t, 1, strings.Count(refused, "\n"))
}

func TestOutputsAreLogged(t *testing.T) {
	out := run(t, &script{events: events()}, reqlog.Options{MaxLen: -1, Outputs: true}, request())
	require.Contains(t, out, `Generated response cmpl-1: choice: 0, output: "Hello", output_token_ids: [1 2], finish_reason: stop`)
	require.Equal(t, 2, strings.Count(out, "\n"))

	out = run(t, &script{events: events()}, reqlog.Options{MaxLen: -1, Outputs: true, Deltas: true}, request())
	require.NotContains(t, out, "streaming delta", "nobody streams")
	streamed := request()
	streamed.Stream = true
	out = run(t, &script{events: events()}, reqlog.Options{MaxLen: -1, Outputs: true, Deltas: true}, streamed)
	require.Equal(t, 2, strings.Count(out, "streaming delta"))

	failed := events()
	failed[2].Final.Err = infer.Errorf(infer.CodeInternal, "", "it broke")
	out = run(t, &script{events: failed}, reqlog.Options{MaxLen: -1, Outputs: true}, request())
	require.Contains(t, out, "Request cmpl-1 failed: it broke")
}

func TestLengthIsBounded(t *testing.T) {
	out := run(t, &script{events: events()}, reqlog.Options{MaxLen: 3, Outputs: true}, request())
	require.Contains(t, out, `prompt: "s, n: 1`, "cut at a character's border")
	require.Contains(t, out, `output: "Hel", output_token_ids: [1 2]`)
	require.NotContains(t, out, "prompt\"")
	out = run(t, &script{events: events()}, reqlog.Options{MaxLen: 0, Outputs: true}, request())
	require.Contains(t, out, `prompt: , n: 1`)
}
