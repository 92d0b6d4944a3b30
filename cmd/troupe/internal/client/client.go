package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"strings"
	"unicode"
)

// Paths of the APIs that [Client.Stream] understands.
const (
	PathChat        = "/v1/chat/completions"
	PathCompletions = "/v1/completions"
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	HTTP    *http.Client // nil = http.DefaultClient
	BaseURL string       // with or without /v1
	APIKey  string       // "" = none
}

// Usage is the token counts of the last chunk.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Metrics is vLLM's per-request metrics of the last chunk; nil members were null
// or absent.
type Metrics struct {
	TimeToFirstTokenMs *float64 `json:"time_to_first_token_ms"`
	GenerationTimeMs   *float64 `json:"generation_time_ms"`
	QueueTimeMs        *float64 `json:"queue_time_ms"`
	MeanITLMs          *float64 `json:"mean_itl_ms"`
	TokensPerSecond    *float64 `json:"tokens_per_second"`
}

// Chunk is one event of a stream.
type Chunk struct {
	Text         string // new text of the first choice
	FinishReason string // "" until the last piece
	Usage        *Usage
	Metrics      *Metrics
}

// StatusError is an answer other than 200.
type StatusError struct {
	Status  int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message) }

// StreamError is an error event in a stream that had begun.
type StreamError struct{ Message string }

// Error implements error.
func (e *StreamError) Error() string { return e.Message }

// ErrTruncated: the stream ended without [DONE].
var ErrTruncated = errors.New("the stream ended without [DONE]")

// ErrProtocol wraps what is no OpenAI stream.
var ErrProtocol = errors.New("not an OpenAI stream")

// maxBodyBytes bounds answers that are read whole.
const maxBodyBytes = 8 << 20

// url joins the base with a path that begins with /v1.
func (c *Client) url(path string) string {
	return strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1") + path
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url(path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		var urlErr *neturl.Error // its words repeat the method and the whole URL
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return nil, fmt.Errorf("no answer from %s: %w", req.URL.Host, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, statusError(resp)
	}
	return resp, nil
}

func statusError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes))
	if err != nil {
		return &StatusError{resp.StatusCode, err.Error()}
	}
	var parsed struct{ Error wireError }
	if json.Unmarshal(b, &parsed) == nil && parsed.Error.Message != "" {
		return &StatusError{resp.StatusCode, printable(parsed.Error.Message)}
	}
	text := printable(string(b))
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return &StatusError{resp.StatusCode, text}
}

// printable makes one line of a server's words, without commands to the terminal.
func printable(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// FirstModel returns the first name that the server lists.
func (c *Client) FirstModel(ctx context.Context) (string, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBodyBytes)).Decode(&list); err != nil {
		return "", fmt.Errorf("%w: /v1/models: %w", ErrProtocol, err)
	}
	if len(list.Data) == 0 {
		return "", errors.New("the server lists no models")
	}
	return list.Data[0].ID, nil
}

type wireError struct{ Message string }

type wireChunk struct {
	Choices []struct {
		Index int
		Delta struct {
			Content   string
			Reasoning string
		}
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage   *Usage
	Metrics *Metrics
	Error   *wireError
}

// Stream posts body, which must ask for a stream, and calls on for every chunk
// until [DONE]. The chunk is valid during the call.
func (c *Client) Stream(ctx context.Context, path string, body any, on func(*Chunk)) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := c.do(ctx, http.MethodPost, path, text)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	events := newSSEReader(resp.Body)
	for {
		data, err := events.next()
		switch {
		case err == io.EOF:
			return ErrTruncated
		case err != nil:
			return err
		case string(data) == "[DONE]":
			return nil
		}
		chunk, err := parseChunk(data)
		if err != nil {
			return err
		}
		on(chunk)
	}
}

func parseChunk(data []byte) (*Chunk, error) {
	var w wireChunk
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if w.Error != nil {
		return nil, &StreamError{printable(w.Error.Message)}
	}
	c := &Chunk{Usage: w.Usage, Metrics: w.Metrics}
	for _, choice := range w.Choices {
		if choice.Index == 0 {
			c.Text += choice.Delta.Reasoning + choice.Delta.Content + choice.Text
			c.FinishReason = choice.FinishReason
		}
	}
	return c, nil
}
