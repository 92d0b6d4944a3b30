package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readAll(r io.Reader) (events []string, err error) {
	s := newSSEReader(r)
	for {
		data, err := s.next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

func TestSSEReader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"one", "data: a\n\n", []string{"a"}},
		{"no blank after the colon", "data:a\n\n", []string{"a"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"empty data", "data:\n\n", []string{""}},
		{"bare field", "data\n\n", []string{""}},
		{"comments and other fields", ": ping\n\nevent: x\nid: 1\ndata: a\nretry: 5\n\n:\n\n", []string{"a"}},
		{"other field with the same beginning", "database: a\n\n", nil},
		{"cut off", "data: a\n\ndata: b", []string{"a"}},
		{"cut off before the empty line", "data: a\n\ndata: b\n", []string{"a"}},
		{"long", "data: " + strings.Repeat("x", 100_000) + "\n\n", []string{strings.Repeat("x", 100_000)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
				got, err := readAll(r)
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, tt.want, got)
			}
		})
	}
}

func TestSSEReaderIsBounded(t *testing.T) {
	for _, endless := range []string{"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"} {
		_, err := readAll(io.LimitReader(&repeat{text: endless}, 64<<20))
		require.ErrorIs(t, err, errEventTooLarge)
	}
}

// repeat reads its text over and over.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func FuzzSSEReader(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
	f.Add(": c\r\ndata:a\rdata: b\n\n\x00")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := readAll(strings.NewReader(in))
		require.ErrorIs(t, err, io.EOF)
		piecewise, _ := readAll(iotest.OneByteReader(strings.NewReader(in)))
		require.Equal(t, whole, piecewise)
		for _, data := range whole {
			if _, err := parseChunk([]byte(data)); err != nil {
				var streamErr *StreamError
				require.True(t, errors.Is(err, ErrProtocol) || errors.As(err, &streamErr))
			}
		}
	})
}

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{HTTP: s.Client(), BaseURL: s.URL, APIKey: "key"}
}

func write(t *testing.T, w io.Writer, text string) {
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
}

func TestStream(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer key", r.Header.Get("Authorization"))
		require.Equal(t, PathChat, r.URL.Path)
		write(t, w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"Par"}}]}

data: {"choices":[{"index":0,"delta":{"content":"is"},"finish_reason":"stop"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2},"metrics":{"time_to_first_token_ms":1.5,"mean_itl_ms":null}}

data: [DONE]

`)
	})
	for _, base := range []string{c.BaseURL, c.BaseURL + "/", c.BaseURL + "/v1", c.BaseURL + "/v1/"} {
		c.BaseURL = base
		var text, finish string
		var last Chunk
		require.NoError(t, c.Stream(context.Background(), PathChat, map[string]any{"stream": true}, func(ch *Chunk) {
			text, last = text+ch.Text, *ch
			finish += ch.FinishReason
		}))
		require.Equal(t, "Paris", text)
		require.Equal(t, "stop", finish)
		require.Equal(t, Usage{PromptTokens: 9, CompletionTokens: 2}, *last.Usage)
		require.Equal(t, 1.5, *last.Metrics.TimeToFirstTokenMs)
		require.Nil(t, last.Metrics.MeanITLMs)
	}
}

func TestStreamErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"coded error", 404, `{"error":{"message":"no such model","code":404}}`, "HTTP 404: no such model"},
		{"plain error", 502, "bad\x1b[2J\n gateway\n", "HTTP 502: bad [2J gateway"},
		{"long error", 500, strings.Repeat("é", 500), "…"},
		{"error event", 200, "data: {\"error\":{\"message\":\"it broke\"}}\n\ndata: [DONE]\n\n", "it broke"},
		{"no end", 200, "data: {\"choices\":[]}\n\n", ErrTruncated.Error()},
		{"no JSON", 200, "data: hello\n\n", ErrProtocol.Error()},
		{"no stream", 200, `{"choices":[]}`, ErrTruncated.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				write(t, w, tt.body)
			})
			err := c.Stream(context.Background(), PathCompletions, nil, func(*Chunk) {})
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

func TestFirstModel(t *testing.T) {
	body := `{"data":[{"id":"a"},{"id":"b"}]}`
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/models", r.URL.Path)
		write(t, w, body)
	})
	name, err := c.FirstModel(context.Background())
	require.NoError(t, err)
	require.Equal(t, "a", name)
	body = `{"data":[]}`
	_, err = c.FirstModel(context.Background())
	require.ErrorContains(t, err, "no models")
	body = `<html>`
	_, err = c.FirstModel(context.Background())
	require.ErrorIs(t, err, ErrProtocol)
}
