//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

// slowServer has one slot, takes its time over prompts, and gives signs of life often.
func slowServer(t *testing.T) *server {
	return roomyServer(t, "--max-num-seqs", "1", "--max-num-batched-tokens", "16", "--no-enable-prefix-caching", "--enable-per-request-metrics",
		"--sse-keep-alive-interval", "0.05")
}

// TestO25SignsOfLife: a stream's headers come while it is queued, and comments
// while there is nothing to say, in the queue and in the prefill.
func TestO25SignsOfLife(t *testing.T) {
	s := slowServer(t)
	queued := obj{"model": "understudy", "messages": user(strings.Repeat("word ", 3000)), "max_tokens": 4, "stream": true}
	release := s.block()
	var headers []time.Duration
	var first *wire
	for i := range 3 {
		w := s.dial()
		sent := time.Now()
		w.chat(queued)
		require.Equal(t, http.StatusOK, w.answer().StatusCode)
		headers = append(headers, time.Since(sent))
		if i == 0 {
			first = w
			continue
		}
		require.NoError(t, w.Close())
	}
	require.Less(t, min(headers[0], headers[1], headers[2]), time.Second, "headers of a queued stream")
	require.Equal(t, "queued", s.live()[1].phase)
	lines := bufio.NewScanner(first.r)
	comments := 0
	next := func() string { // the next line of the body that is not part of HTTP's chunks
		for lines.Scan() {
			if l := lines.Text(); strings.HasPrefix(l, ":") || strings.HasPrefix(l, "data: ") {
				return l
			}
		}
		require.Fail(t, "the stream ended", "%v", lines.Err())
		return ""
	}
	for ; comments < 3; comments++ { // still queued
		require.True(t, strings.HasPrefix(next(), ":"), "nothing but comments comes before the first token")
	}
	release()
	inPrefill := 0
	line := next()
	for ; strings.HasPrefix(line, ":"); line = next() {
		inPrefill++
	}
	require.Positive(t, inPrefill, "and in the prefill, which takes much longer than an interval")
	require.Contains(t, line, `"role":"assistant"`)
}

// TestO25CommentsAreNoTokens: the official client reads through them, and no timing counts them.
func TestO25CommentsAreNoTokens(t *testing.T) {
	s := slowServer(t)
	release := s.block()
	c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	stream := c.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "understudy", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the capital of France?")}, Temperature: openai.Float(0),
	})
	read := make(chan string, 1)
	go func() {
		text := ""
		for stream.Next() {
			text += stream.Current().Choices[0].Delta.Content
		}
		read <- text
	}()
	s.eventually(func() bool { return s.phases()["queued"] == 1 }, "the client's is queued")
	release()
	require.Contains(t, <-read, "Paris")
	require.NoError(t, stream.Err())

	long := obj{"model": "understudy", "messages": user(strings.Repeat("word ", 1000)), "max_tokens": 4, "ignore_eos": true, "temperature": 0}
	want, _ := s.chat(long)
	release = s.block()
	timed := make(chan *sse, 1)
	go func() {
		e, _ := s.tryStream(context.Background(), "/v1/chat/completions", with(long, obj{"stream_options": obj{"include_usage": true}}), nil)
		timed <- e
	}()
	s.eventually(func() bool { return s.phases()["queued"] == 1 }, "it is queued")
	<-time.After(200 * time.Millisecond) // some comments
	release()
	e := <-timed
	require.Equal(t, content(want, 0), e.text(0))
	require.Greater(t, e.Comments, 2)
	m := readTimes(t, e.last())
	require.Greater(t, m.queue, 150.0, "what a comment broke was not the wait")
	requireIdentities(t, m, 4)
}

// TestO25OffByDefault: strict clients see no comment unless the server is told to send them.
func TestO25OffByDefault(t *testing.T) {
	s := roomyServer(t, "--max-num-seqs", "1")
	release := s.block()
	read := make(chan *sse, 1)
	go func() {
		e, _ := s.tryStream(context.Background(), "/v1/chat/completions", obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 2}, nil)
		read <- e
	}()
	s.eventually(func() bool { return s.phases()["queued"] == 1 }, "it is queued")
	<-time.After(300 * time.Millisecond)
	release()
	require.Zero(t, (<-read).Comments)
}

// TestO25FailureAfterTheHeaders: a request that fails when its headers are out says so in the stream.
func TestO25FailureAfterTheHeaders(t *testing.T) {
	s := roomyServer(t, "--max-num-seqs", "1", "--sse-keep-alive-interval", "0.05")
	release := s.block()
	w := s.dial()
	w.chat(obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 9, "stream": true, "vllm_xargs": obj{"troupe_fault": "panic-in-sampling"}})
	resp := w.answer()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.True(t, strings.HasPrefix(lines.Text(), ":"), "%q", lines.Text())
	release()
	var data []string
	for lines.Scan() {
		if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data = append(data, d)
		}
	}
	require.NoError(t, lines.Err())
	require.GreaterOrEqual(t, len(data), 2)
	require.Equal(t, "[DONE]", data[len(data)-1])
	require.Contains(t, data[len(data)-2], `{"error":{`)
	require.NotContains(t, strings.Join(data, ""), `"finish_reason":"`)
}
