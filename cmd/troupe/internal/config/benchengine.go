package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
)

// BenchEngine is the settings of `troupe bench engine`.
type BenchEngine struct {
	Models []string `arg:"" optional:"" name:"MODEL" help:"Model folders, GGUF files and names of a hub; the embedded model if neither these nor --shape are given."`
	Shape  []string `placeholder:"SHAPE" help:"Also measure models of these shapes with random weights, written to files that are deleted afterwards: 110m, 1.1b, 3b, 8b, 14b, 32b, 70b."`
	Type   []string `default:"q8_0" placeholder:"TYPE" help:"Types of random weights: bf16, f16, q8_0, q4_0."`

	Quantization []string `enum:"none,q8_0,q4_0" default:"none" placeholder:"TYPE" help:"What weights are quantised to at load, as by troupe serve; of several, each model is measured with each."`
	KVCacheDType string   `name:"kv-cache-dtype" default:"auto" placeholder:"TYPE" help:"Type of keys and values, as for troupe serve."`
	Threads      int      `default:"0" help:"Threads; 0 = one per core."`

	Prefill     []int `default:"128,512" help:"Lengths of prompts to prefill, in tokens."`
	Decode      []int `default:"1,8,32" help:"Numbers of sequences to decode at once."`
	Context     int   `default:"128" help:"Tokens of each sequence before it decodes."`
	Tokens      int   `default:"32" help:"Tokens that each sequence decodes."`
	Repetitions int   `default:"5" help:"How often everything is measured, in turns."`

	ReadMiB int `name:"read-mib" default:"512" help:"MiB that are read plainly, to tell the memory's bandwidth; far more than the caches hold."`

	JSON string `name:"json" placeholder:"FILE" help:"Also write the report as JSON; - = standard output, instead of the table."`
}

// limits of a measurement.
const (
	maxEngineTokens      = 1 << 17
	maxEngineSequences   = 1 << 12
	maxEngineRepetitions = 1 << 10
	maxEngineThreads     = 1 << 10
)

// Check returns the first impossible setting.
func (b *BenchEngine) Check() error {
	if len(b.Prefill)+len(b.Decode) == 0 {
		return errors.New("--prefill and --decode are both empty: there is nothing to measure")
	}
	rows := []intRange{
		{"--threads", b.Threads, 0, maxEngineThreads},
		{"--context", b.Context, 1, maxEngineTokens},
		{"--tokens", b.Tokens, 1, maxEngineTokens},
		{"--read-mib", b.ReadMiB, 1, 1 << 20},
		{"--repetitions", b.Repetitions, 1, maxEngineRepetitions},
	}
	for _, n := range b.Prefill {
		rows = append(rows, intRange{"--prefill", n, 1, maxEngineTokens})
	}
	for _, n := range b.Decode {
		rows = append(rows, intRange{"--decode", n, 1, maxEngineSequences})
	}
	for _, r := range rows {
		if err := r.check(); err != nil {
			return err
		}
	}
	for _, s := range b.Shape {
		if _, err := randommodel.Find(s); err != nil {
			return fmt.Errorf("--shape: %w", err)
		}
	}
	for _, t := range b.Type {
		if _, err := randommodel.FindType(t); err != nil {
			return fmt.Errorf("--type: %w", err)
		}
	}
	return nil
}

// MaxTokens is the most tokens in one step, with which a server would do as well.
func (b *BenchEngine) MaxTokens() int {
	return max(slices.Max(append([]int{2048}, b.Prefill...)), b.MaxNumSeqs())
}

// MaxNumSeqs is the most sequences at once.
func (b *BenchEngine) MaxNumSeqs() int { return slices.Max(append([]int{1}, b.Decode...)) }

// ContextLength is the most tokens of a sequence: while the last of a batch prefill,
// the first decode.
func (b *BenchEngine) ContextLength() int {
	longest := b.Context + b.Tokens + b.MaxNumSeqs()*b.Context/MinPrefillShare + b.MaxNumSeqs()
	return max(slices.Max(append([]int{1}, b.Prefill...))+1, longest)
}

// MinPrefillShare is the least number of prompt tokens that a step has room for.
const MinPrefillShare = 256

// BenchModel is the settings of `troupe bench model`.
type BenchModel struct {
	File  string `arg:"" name:"FILE" help:"GGUF file to write."`
	Shape string `default:"110m" help:"Shape: 110m, 1.1b, 3b, 8b, 14b, 32b, 70b."`
	Type  string `default:"q8_0" help:"Type of the matrices: bf16, f16, q8_0, q4_0."`
	Seed  uint64 `default:"1" help:"Seed of the weights."`
}

// Check returns the first impossible setting.
func (b *BenchModel) Check() error {
	if b.File == "" {
		return errors.New("FILE must not be empty")
	}
	if _, err := randommodel.Find(b.Shape); err != nil {
		return fmt.Errorf("--shape: %w", err)
	}
	if _, err := randommodel.FindType(b.Type); err != nil {
		return fmt.Errorf("--type: %w", err)
	}
	return nil
}
