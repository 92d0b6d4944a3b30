package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
	userKey  = "sk-soak-user"
)

// result is how one request went for its client.
type result struct {
	outcome outcome
	answer  answer
	trouble string // why it is not whole
}

// reply is an answer or a chunk of one.
type reply struct {
	Choices []struct {
		Index        int     `json:"index"`
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
		Message      struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// add joins a chunk to what came before.
func (a *answer) add(r *reply) {
	for _, c := range r.Choices {
		for len(a.texts) <= c.Index {
			a.texts, a.finishes = append(a.texts, ""), append(a.finishes, "")
		}
		a.texts[c.Index] += c.Text + c.Message.Content + c.Delta.Content
		if c.FinishReason != nil {
			a.finishes[c.Index] += *c.FinishReason
		}
	}
	if r.Usage != nil {
		a.tokens += r.Usage.CompletionTokens
	}
}

// ask sends a request and reads its answer; each, if given, is called after every
// chunk. A canceled ctx is a client that hangs up.
func (t *traffic) ask(ctx context.Context, id string, j *job, stream bool, each func(n int)) result {
	fields := make(map[string]any, len(j.fields)+2)
	for k, v := range j.fields {
		fields[k] = v
	}
	if stream {
		fields["stream"], fields["stream_options"] = true, map[string]any{"include_usage": true}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return result{outcome: broken, trouble: err.Error()}
	}
	// Who hangs up before the request has left has sent none. Requests are smaller
	// than a write, and WroteRequest comes before the flush.
	var isSent func() bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) {
		c := g.Conn.(*countingConn)
		before := c.numWrites.Load()
		isSent = func() bool { return c.numWrites.Load() > before }
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.url+j.path, bytes.NewReader(body))
	if err != nil {
		return result{outcome: broken, trouble: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	resp, err := t.client.Do(req)
	if err != nil && (isSent == nil || !isSent()) && ctx.Err() != nil {
		return result{outcome: unsent}
	}
	if err != nil {
		return cut(ctx, answer{}, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !stream {
		return readWhole(ctx, resp)
	}
	return readStream(ctx, resp.Body, each)
}

// countingConn knows how many writes the kernel has taken.
type countingConn struct {
	net.Conn
	numWrites atomic.Int64
}

// Write implements net.Conn.
func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.numWrites.Add(1)
	}
	return n, err
}

func newClient() *http.Client {
	var d net.Dialer
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: c}, nil
	}}}
}

// cut is the result of a connection that has ended too early.
func cut(ctx context.Context, so answer, err error) result {
	if ctx.Err() != nil {
		return result{left, so, err.Error()}
	}
	return result{broken, so, err.Error()}
}

func readWhole(ctx context.Context, resp *http.Response) result {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return cut(ctx, answer{}, err)
	}
	switch {
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable:
		return result{outcome: failed, trouble: string(raw)}
	case resp.StatusCode != http.StatusOK:
		return result{outcome: refused, trouble: string(raw)}
	}
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		return result{outcome: broken, trouble: fmt.Sprintf("%v: %d %q", err, resp.StatusCode, raw)}
	}
	got := result{outcome: whole}
	got.answer.add(&r)
	return got
}

func readStream(ctx context.Context, body io.Reader, each func(n int)) result {
	var got result
	sc := bufio.NewScanner(body)
	sc.Buffer(nil, 1<<20)
	for n := 0; sc.Scan(); {
		data, isData := strings.CutPrefix(sc.Text(), "data: ")
		if !isData {
			continue
		}
		if data == "[DONE]" {
			if got.outcome == "" {
				got.outcome = whole
			}
			return got
		}
		var r reply
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			// Who hangs up may be left with half a line.
			return cut(ctx, got.answer, fmt.Errorf("%w: %q", err, data))
		}
		if r.Error != nil {
			got.outcome, got.trouble = failed, string(r.Error)
		}
		got.answer.add(&r)
		if n++; each != nil {
			each(n)
		}
	}
	err := sc.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return cut(ctx, got.answer, err)
}
