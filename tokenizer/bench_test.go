package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/troupe-llm/troupe/tokenizer"
)

const chatTurn = "<|im_start|>user\nWhat is the capital of France, and how many people live there? Please answer in one short sentence.<|im_end|>\n" +
	"<|im_start|>assistant\nThe capital of France is Paris, and about 2,100,000 people live there.<|im_end|>\n"

// filled returns unit repeated to size bytes.
func filled(unit string, size int) string {
	return strings.Repeat(unit, size/len(unit)+1)[:size]
}

func benchmarkEncode(b *testing.B, text string) {
	tok := understudy(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(text, tokenizer.EncodeOptions{})
	}
}

func BenchmarkEncodeChat1KB(b *testing.B)  { benchmarkEncode(b, filled(chatTurn, 1<<10)) }
func BenchmarkEncodeText1MB(b *testing.B)  { benchmarkEncode(b, filled(chatTurn, 1<<20)) }
func BenchmarkEncodeWord1MB(b *testing.B)  { benchmarkEncode(b, filled("station", 1<<20)) }
func BenchmarkEncodeMixed1MB(b *testing.B) { benchmarkEncode(b, mixed(b, 1<<20)) }

// mixed returns text of many scripts.
func mixed(b *testing.B, size int) string {
	return filled(strings.Join(readFeatures(b).General, " \n"), size)
}

func BenchmarkEncodeParallel(b *testing.B) {
	tok := understudy(b)
	text := filled(chatTurn, 1<<10)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tok.Encode(text, tokenizer.EncodeOptions{})
		}
	})
}

// BenchmarkEncodeOverLimit refuses 32 MB that are over the limit.
func BenchmarkEncodeOverLimit(b *testing.B) {
	tok := understudy(b)
	text := filled("a", 32<<20)
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(text, tokenizer.EncodeOptions{Limit: 1024})
	}
}

func BenchmarkEncodePattern64KB(b *testing.B) {
	f := readFeatures(b)
	tok := f.load(b, f.named(b, "DeepSeek: a chain of patterns"))
	text := filled(chatTurn, 64<<10)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(text, tokenizer.EncodeOptions{})
	}
}

func benchmarkPush(b *testing.B, text string) {
	tok := understudy(b)
	ids := tok.Encode(text, tokenizer.EncodeOptions{})
	d := tok.NewDecoder(true)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Push(ids[i%len(ids)])
	}
}

func BenchmarkDecoderPush(b *testing.B)      { benchmarkPush(b, filled(chatTurn, 1<<10)) }
func BenchmarkDecoderPushEmoji(b *testing.B) { benchmarkPush(b, "😀🚀😀🚀") }

func BenchmarkNew(b *testing.B) {
	f := readFeatures(b)
	file := f.file(b, f.named(b, "o200k"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokenizer.New(file, tokenizer.Config{}); err != nil {
			b.Fatal(err)
		}
	}
}
