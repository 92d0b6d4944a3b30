//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// obj is a JSON object whose shape the test wants to see as it came.
type obj = map[string]any

// body renders a request; its keys come in alphabetical order.
func body(fields obj) string {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// user is a conversation of one user message.
func user(text string) []obj { return []obj{{"role": "user", "content": text}} }

// with returns base and the further fields as one request.
func with(base obj, more obj) obj {
	out := obj{}
	for _, m := range []obj{base, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// parse decodes a JSON object and fails the test if it is none.
func (s *server) parse(b []byte) obj {
	s.t.Helper()
	var o obj
	require.NoError(s.t, json.Unmarshal(b, &o), "%s", b)
	return o
}

// post sends fields and expects 200.
func (s *server) post(path string, fields obj) (obj, reply) {
	s.t.Helper()
	r := s.do("POST", path, body(fields))
	require.Equal(s.t, http.StatusOK, r.Status, "%s", r.Body)
	return s.parse(r.Body), r
}

func (s *server) chat(fields obj) (obj, reply) {
	s.t.Helper()
	return s.post("/v1/chat/completions", fields)
}

func (s *server) complete(fields obj) (obj, reply) {
	s.t.Helper()
	return s.post("/v1/completions", fields)
}

// refused sends fields and expects an error of this status; it returns the error object.
func (s *server) refused(status int, path, raw string) obj {
	s.t.Helper()
	r := s.do("POST", path, raw)
	require.Equal(s.t, status, r.Status, "%s", r.Body)
	require.Contains(s.t, r.Header.Get("Content-Type"), "application/json")
	e, ok := s.parse(r.Body)["error"].(obj)
	require.True(s.t, ok, "no error object: %s", r.Body)
	require.NotEmpty(s.t, e["message"])
	require.NotEmpty(s.t, e["type"])
	require.Contains(s.t, e, "param")
	require.EqualValues(s.t, status, e["code"])
	return e
}

// sse is a whole event stream.
type sse struct {
	Header   http.Header
	Raw      string
	Chunks   []obj       // every data line but [DONE]
	At       []time.Time // arrival of each chunk
	Comments int
	Done     bool // [DONE] came, and came last
	Wall     time.Duration
}

// stream sends fields with stream: true and reads the events to the end.
func (s *server) stream(path string, fields obj) *sse {
	s.t.Helper()
	out, err := s.tryStream(context.Background(), path, fields, nil)
	require.NoError(s.t, err)
	return out
}

// tryStream is stream for use from any goroutine; each, if given, sees every
// chunk as it comes and may return false to hang up.
func (s *server) tryStream(ctx context.Context, path string, fields obj, each func(n int, chunk obj) bool) (*sse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body(with(fields, obj{"stream": true}))))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &sse{Header: resp.Header}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return nil, &statusError{resp.StatusCode, string(b)}
	}
	var raw strings.Builder
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		line := sc.Text()
		raw.WriteString(line + "\n")
		data, isData := strings.CutPrefix(line, "data: ")
		switch {
		case strings.HasPrefix(line, ":"):
			out.Comments++
		case isData && data == "[DONE]":
			out.Done = true
		case isData:
			out.Done = false
			var c obj
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				return nil, err
			}
			out.Chunks, out.At = append(out.Chunks, c), append(out.At, time.Now())
			if each != nil && !each(len(out.Chunks), c) {
				return out, nil
			}
		}
	}
	out.Raw, out.Wall = raw.String(), time.Since(start)
	return out, sc.Err()
}

type statusError struct {
	Status int
	Body   string
}

func (e *statusError) Error() string { return http.StatusText(e.Status) + ": " + e.Body }

// choice returns choices[i] of a chunk or body.
func choice(o obj, i int) obj { return o["choices"].([]any)[i].(obj) }

// content returns the text of choices[i] of a whole chat or completions answer.
func content(o obj, i int) string {
	c := choice(o, i)
	if m, ok := c["message"].(obj); ok {
		s, _ := m["content"].(string)
		return s
	}
	s, _ := c["text"].(string)
	return s
}

// text joins the deltas of one choice.
func (e *sse) text(index int) string {
	var b strings.Builder
	for _, c := range e.Chunks {
		choices, _ := c["choices"].([]any)
		for _, ch := range choices {
			ch := ch.(obj)
			if int(ch["index"].(float64)) != index {
				continue
			}
			if d, ok := ch["delta"].(obj); ok {
				s, _ := d["content"].(string)
				b.WriteString(s)
			} else if s, ok := ch["text"].(string); ok {
				b.WriteString(s)
			}
		}
	}
	return b.String()
}

// finish returns the finish_reason of one choice, "" if none came.
func (e *sse) finish(index int) string {
	for _, c := range e.Chunks {
		choices, _ := c["choices"].([]any)
		for _, ch := range choices {
			ch := ch.(obj)
			if r, ok := ch["finish_reason"].(string); ok && int(ch["index"].(float64)) == index {
				return r
			}
		}
	}
	return ""
}

// last returns the last chunk.
func (e *sse) last() obj { return e.Chunks[len(e.Chunks)-1] }

// usage returns a count of a body's or chunk's usage.
func usage(o obj, field string) int { return int(o["usage"].(obj)[field].(float64)) }

// scrape reads /metrics into "name{label="value",…}" → value; histograms give
// their _sum, _count and _bucket series.
func (s *server) scrape() map[string]float64 {
	s.t.Helper()
	r := s.do("GET", "/metrics", "")
	require.Equal(s.t, http.StatusOK, r.Status)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(r.Body)))
	require.NoError(s.t, err)
	out := map[string]float64{}
	for _, f := range families {
		vec, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Now()}, f)
		require.NoError(s.t, err)
		for _, sample := range vec {
			out[sample.Metric.String()] = float64(sample.Value)
		}
	}
	return out
}

// sum adds the samples whose name is name and whose labels contain every given `label="value"`.
func sum(samples map[string]float64, name string, labels ...string) float64 {
	var total float64
next:
	for k, v := range samples {
		if k != name && !strings.HasPrefix(k, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(k, l) {
				continue next
			}
		}
		total += v
	}
	return total
}
