package chatui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// echo answers with the conversation so far, one message per line.
type echo struct {
	mu      sync.Mutex
	bodies  []map[string]any
	status  int    // != 0: refuse with it
	trailer string // metrics of the last chunk
	hang    bool   // the first answer never ends
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	b, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(b, &body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bodies = append(e.bodies, body)
	if e.status != 0 {
		w.WriteHeader(e.status)
		fmt.Fprint(w, `{"error":{"message":"too long"}}`)
		return
	}
	var text []string
	for _, m := range body["messages"].([]any) {
		text = append(text, m.(map[string]any)["content"].(string))
	}
	piece, _ := json.Marshal(strings.Join(text, "|"))
	fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`+"\n\n")
	fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", piece)
	if e.hang && len(e.bodies) == 1 {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":12}%s}`+"\n\ndata: [DONE]\n\n", e.trailer)
}

func talk(t *testing.T, e *echo, input string, change func(*Options)) (string, error) {
	t.Helper()
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	var out bytes.Buffer
	o := Options{
		Client: &client.Client{HTTP: server.Client(), BaseURL: server.URL}, Model: "m",
		In: strings.NewReader(input), Out: &out, Metrics: true,
	}
	if change != nil {
		change(&o)
	}
	err := Run(context.Background(), o)
	return out.String(), err
}

func TestPipeAnswersEachLine(t *testing.T) {
	e := &echo{}
	out, err := talk(t, e, "one\n\n  two \n/reset\nthree\n/exit\nfour\n", nil)
	require.NoError(t, err)
	require.Equal(t, "one\none|one|two\nthree\n", out)
	require.Len(t, e.bodies, 3)
	require.Equal(t, "m", e.bodies[0]["model"])
	require.Equal(t, true, e.bodies[0]["stream"])
	require.NotContains(t, e.bodies[0], "temperature")
}

func TestSettingsAreSent(t *testing.T) {
	e := &echo{}
	temperature, seed := 0.5, int64(9)
	out, err := talk(t, e, "hi\n/reset\nhi", func(o *Options) {
		o.System, o.MaxTokens, o.Temperature, o.Seed = "be brief", 7, &temperature, &seed
	})
	require.NoError(t, err)
	require.Equal(t, "be brief|hi\nbe brief|hi\n", out)
	require.Equal(t, 7.0, e.bodies[0]["max_tokens"])
	require.Equal(t, 0.5, e.bodies[0]["temperature"])
	require.Equal(t, 9.0, e.bodies[0]["seed"])
}

func TestTerminalShowsMetrics(t *testing.T) {
	terminal := func(o *Options) { o.Terminal = true }
	e := &echo{trailer: `,"metrics":{"time_to_first_token_ms":12.34,"generation_time_ms":100,"queue_time_ms":0.5,"mean_itl_ms":9.1,"tokens_per_second":106.8}`}
	out, err := talk(t, e, "hi\x1b[2J\n", terminal)
	require.NoError(t, err)
	require.Contains(t, out, "hi[2J\n", "control characters of the answer do not reach the terminal")
	require.Contains(t, out, "\x1b[2m12 tokens · first token 12.3 ms · generation 100.0 ms · 106.8 tokens/s · queue 0.5 ms\x1b[0m\n")

	out, err = talk(t, &echo{}, "hi\n", terminal)
	require.NoError(t, err)
	require.Regexp(t, `12 tokens · first token after \d+ ms · by this client's clock`, out)

	out, err = talk(t, e, "hi\n", func(o *Options) { o.Terminal, o.Metrics = true, false })
	require.NoError(t, err)
	require.NotContains(t, out, "first token")
}

func TestErrors(t *testing.T) {
	e := &echo{status: 400}
	var errs bytes.Buffer
	out, err := talk(t, e, "hi\nagain\n", func(o *Options) { o.Err = &errs })
	require.ErrorContains(t, err, "too long")
	require.Empty(t, out, "a pipe gets answers only")
	require.Equal(t, "Error: HTTP 400: too long\n", errs.String(), "the other one is returned")
	e = &echo{status: 400}

	out, err = talk(t, e, "hi\nagain\n", func(o *Options) { o.Terminal = true })
	require.NoError(t, err, "a terminal goes on")
	require.Equal(t, 2, strings.Count(out, "Error: "))
	require.Len(t, e.bodies[1]["messages"], 1, "what was refused is not part of the conversation")

	_, err = talk(t, &echo{}, strings.Repeat("x", 2<<20), nil)
	require.ErrorContains(t, err, "input: ")
}

// pressCtrlC sends an interrupt once the output holds a text.
type pressCtrlC struct {
	bytes.Buffer
	when       string
	interrupts chan os.Signal
}

func (p *pressCtrlC) Write(b []byte) (int, error) {
	if p.when != "" && strings.Contains(string(b), p.when) {
		p.when = ""
		p.interrupts <- os.Interrupt
	}
	return p.Buffer.Write(b)
}

func TestInterruptStopsTheAnswerOnly(t *testing.T) {
	e := &echo{hang: true}
	out := &pressCtrlC{when: "hello", interrupts: make(chan os.Signal, 1)}
	_, err := talk(t, e, "hello\nagain\n/exit\n", func(o *Options) { o.Out, o.Interrupts, o.Terminal = out, out.interrupts, true })
	require.NoError(t, err)
	require.Contains(t, out.String(), "stopped")
	require.Contains(t, out.String(), "hello|hello|again", "what was said before the stop stays in the conversation")
}

func TestInterruptAtThePromptExplains(t *testing.T) {
	interrupts := make(chan os.Signal)
	in, say := io.Pipe()
	go func() {
		interrupts <- os.Interrupt
		_ = say.Close()
	}()
	out, err := talk(t, &echo{}, "", func(o *Options) { o.In, o.Interrupts, o.Terminal = in, interrupts, true })
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "/exit leaves"))
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in, say := io.Pipe()
	require.NoError(t, Run(ctx, Options{In: in, Out: io.Discard, Terminal: true}))
	require.ErrorIs(t, Run(ctx, Options{In: in, Out: io.Discard}), errInterrupted)
	require.NoError(t, say.Close())
}

func TestEndOfContextDuringAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	var out bytes.Buffer
	err := Run(ctx, Options{
		Client: &client.Client{HTTP: server.Client(), BaseURL: server.URL}, In: strings.NewReader("hi\nagain\n"), Out: &out,
	})
	require.ErrorIs(t, err, errInterrupted)
	require.Equal(t, "", out.String(), "no error of the connection is shown")
}

func TestStopwatch(t *testing.T) {
	start := time.Now()
	w := newStopwatch(start)
	require.Equal(t, "no text", w.line(false))
	w.chunk(&client.Chunk{}, start.Add(time.Second)) // the role: no text yet
	w.chunk(&client.Chunk{Text: "a"}, start.Add(2*time.Second))
	w.chunk(&client.Chunk{Text: "b"}, start.Add(3*time.Second))
	require.Equal(t, "first token after 2000 ms · then 1.0 tokens/s · by this client's clock", w.line(false))
	w.chunk(&client.Chunk{Usage: &client.Usage{CompletionTokens: 11}}, start.Add(4*time.Second))
	require.Equal(t, "stopped · 11 tokens · first token after 2000 ms · then 10.0 tokens/s · by this client's clock", w.line(true))
}
