package openai_test

import (
	"fmt"
	"testing"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func benchmarkDelta(b *testing.B, body string, d infer.Delta) {
	call, err := openai.ParseChat([]byte(body), profile(), envelope())
	if err != nil {
		b.Fatal(err)
	}
	s := call.Reply.NewStream()
	buf := s.AppendDelta(make([]byte, 0, 8192), &d)
	b.ReportAllocs()
	for b.Loop() {
		buf = s.AppendDelta(buf[:0], &d)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkChatDelta(b *testing.B) {
	d := infer.Delta{Text: " token", TokenIDs: []int32{7}, NumOutputTokens: 1}
	b.Run("plain", func(b *testing.B) { benchmarkDelta(b, chat(`"stream":true`), d) })
	b.Run("running-usage", func(b *testing.B) {
		benchmarkDelta(b, chat(`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`), d)
	})
	d.Logprobs = []infer.TokenLogprobs{token(7, " token", " token", "a", "b", "c", "d")}
	b.Run("logprobs", func(b *testing.B) { benchmarkDelta(b, chat(`"stream":true,"logprobs":true,"top_logprobs":5`), d) })
}

func BenchmarkParseChat(b *testing.B) {
	body := []byte(chat(`"temperature":0.7,"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}`))
	p, e := profile(), envelope()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openai.ParseChat(body, p, e); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
}

// BenchmarkFinal is the end of a streamed answer: all that per-request metrics add
// to a request but for one allocation, when they are computed.
func BenchmarkFinal(b *testing.B) {
	final := &infer.Final{Usage: infer.Usage{NumPromptTokens: 30, NumCompletionTokens: 128}, Metrics: &infer.RequestMetrics{
		TimeToFirstTokenMs: known(12.345678), GenerationTimeMs: known(1234.567891), QueueTimeMs: known(0.123456),
		MeanITLMs: known(1234.567891 / 127), TokensPerSecond: known(128 / 1.246913569),
	}}
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("metrics=%t", on), func(b *testing.B) {
			p := profile()
			p.PerRequestMetrics = on
			call, err := openai.ParseChat([]byte(chat(`"stream":true,"stream_options":{"include_usage":true}`)), p, envelope())
			if err != nil {
				b.Fatal(err)
			}
			s, buf := call.Reply.NewStream(), make([]byte, 0, 8192)
			b.ReportAllocs()
			for b.Loop() {
				buf = s.AppendFinal(buf[:0], final)
			}
		})
	}
}
