package reqlog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// Options say what is logged.
type Options struct {
	Logger  *slog.Logger
	MaxLen  int  // most bytes of a prompt or output; < 0 = no bound
	Outputs bool // log outputs too
	Deltas  bool // with Outputs, every piece of a stream as it comes and not only the whole
}

// Wrap returns g with its requests logged.
func Wrap(g infer.Generator, o Options) infer.Generator {
	return &generator{Generator: g, o: o}
}

type generator struct {
	infer.Generator
	o Options
}

// Generate implements infer.Generator.
func (g *generator) Generate(ctx context.Context, req *infer.Request) (infer.Stream, error) {
	g.o.Logger.Info(fmt.Sprintf("Received request %s: prompt: %s, n: %d, params: %s",
		req.ID, g.prompt(req), req.N, params(req)))
	s, err := g.Generator.Generate(ctx, req)
	if err != nil || !g.o.Outputs {
		return s, err
	}
	return &stream{Stream: s, g: g, deltas: g.o.Deltas && req.Stream, texts: map[int]*output{}}, nil
}

func (g *generator) prompt(req *infer.Request) string {
	var parts []string
	if req.Chat != nil {
		for _, m := range req.Chat.Messages {
			parts = append(parts, string(m))
		}
	}
	for _, p := range req.Prompts {
		if p.TokenIDs != nil {
			parts = append(parts, fmt.Sprint(p.TokenIDs[:g.clip(len(p.TokenIDs))]))
			continue
		}
		parts = append(parts, fmt.Sprintf("%q", p.Text))
	}
	return g.cut(strings.Join(parts, ", "))
}

func (g *generator) clip(n int) int {
	if g.o.MaxLen >= 0 {
		return min(n, g.o.MaxLen)
	}
	return n
}

// cut shortens s to MaxLen bytes at a character's border.
func (g *generator) cut(s string) string {
	n := g.clip(len(s))
	for n < len(s) && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// params writes the sampling parameters as vLLM does.
func params(req *infer.Request) string {
	p := req.Sampling
	maxTokens, seed := "None", "None"
	if req.MaxTokens != nil {
		maxTokens = fmt.Sprint(*req.MaxTokens)
	}
	if req.SeedGiven {
		seed = fmt.Sprint(p.Seed)
	}
	return fmt.Sprintf("SamplingParams(max_tokens=%s, temperature=%v, top_p=%v, top_k=%d, min_p=%v, seed=%s, stop=%q)",
		maxTokens, p.Temperature, p.TopP, p.TopK, p.MinP, seed, p.Stop)
}

// output is what one choice has said so far, up to a bound.
type output struct {
	text   strings.Builder
	ids    []int32
	reason string
}

// maxKept bounds the text kept per choice when there is no --max-log-len.
const maxKept = 64 << 10

type stream struct {
	infer.Stream
	g      *generator
	deltas bool // every piece is logged
	texts  map[int]*output
}

// Drain implements infer.Stream.
func (s *stream) Drain(buf []infer.Event) []infer.Event {
	before := len(buf)
	buf = s.Stream.Drain(buf)
	for i := before; i < len(buf); i++ {
		if f := buf[i].Final; f != nil {
			s.final(f)
		} else {
			s.delta(&buf[i].Delta)
		}
	}
	return buf
}

func (s *stream) delta(d *infer.Delta) {
	o := s.texts[d.Index]
	if o == nil {
		o = &output{}
		s.texts[d.Index] = o
	}
	if o.text.Len() < maxKept {
		o.text.WriteString(d.Text)
		o.ids = append(o.ids, d.TokenIDs...)
	}
	if d.FinishReason != infer.FinishNone {
		o.reason = d.FinishReason.String()
	}
	if s.deltas {
		s.g.o.Logger.Info(fmt.Sprintf("Generated response %s (streaming delta): choice: %d, output: %q", s.ID(), d.Index, s.g.cut(d.Text)))
	}
}

func (s *stream) final(f *infer.Final) {
	if f.Err != nil {
		s.g.o.Logger.Info(fmt.Sprintf("Request %s failed: %s", s.ID(), f.Err.Message))
		return
	}
	for i := range len(s.texts) {
		o := s.texts[i]
		if o == nil {
			continue
		}
		s.g.o.Logger.Info(fmt.Sprintf("Generated response %s: choice: %d, output: %q, output_token_ids: %v, finish_reason: %s",
			s.ID(), i, s.g.cut(o.text.String()), o.ids[:s.g.clip(len(o.ids))], o.reason))
	}
}
