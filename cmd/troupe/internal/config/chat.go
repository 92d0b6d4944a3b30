package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Chat is the settings of `troupe chat`.
type Chat struct {
	URL       string `name:"url" help:"Server to talk to; without it the model runs in this process."`
	Model     string `help:"With --url the model's name at the server, else the folder, or the name at a hub, of the model to load. The server's first, or the embedded model, if absent."`
	System    string `help:"System message."`
	APIKey    string `name:"api-key" placeholder:"KEY" help:"Bearer key; or OPENAI_API_KEY."`
	MaxTokens int    `default:"0" help:"Most tokens per answer; 0 = the server's default."`
	NoMetrics bool   `name:"quiet" help:"No line of metrics after each answer."`

	Temperature *float64 `help:"Sampling temperature; the model's default if absent."`
	Seed        *int64   `help:"Seed of the answers."`
}

// Check returns the first impossible setting.
func (c *Chat) Check() error {
	if c.MaxTokens < 0 {
		return fmt.Errorf("--max-tokens must be at least 0, got %d", c.MaxTokens)
	}
	if c.URL == "" {
		return nil
	}
	return checkURL("--url", c.URL)
}

// checkURL accepts http and https URLs.
func checkURL(flag, s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s must be a URL such as http://localhost:8000, got %q", flag, s)
	}
	return nil
}

// Bench is the group of measuring commands.
type Bench struct {
	Serve  BenchServe  `cmd:"" help:"Load an OpenAI-compatible server and report what its clients saw."`
	Engine BenchEngine `cmd:"" help:"Measure prefill and decode of models in this process, without a server."`
	Model  BenchModel  `cmd:"" help:"Write a model with random weights as a GGUF file, to be measured here or by other programs."`
}

// BenchServe is the settings of `troupe bench serve`.
type BenchServe struct {
	URL      string `name:"url" default:"http://localhost:8000" help:"Server to measure."`
	Model    string `help:"Model's name; the server's first if absent."`
	APIKey   string `name:"api-key" placeholder:"KEY" help:"Bearer key; or OPENAI_API_KEY."`
	Endpoint string `enum:"chat,completions" default:"chat" help:"API to use."`

	NumRequests int     `default:"100" help:"Requests to measure."`
	Concurrency int     `default:"8" help:"Requests in flight; not with --rate."`
	Rate        float64 `default:"0" help:"Requests started per second on average, at random moments; 0 = keep --concurrency in flight."`
	Warmup      int     `default:"1" help:"Requests before the measurement."`
	Timeout     float64 `default:"300" help:"Seconds per request."`

	PromptTokens int    `default:"128" help:"Approximate prompt length in tokens."`
	OutputTokens int    `default:"64" help:"Output length in tokens."`
	IgnoreEOS    bool   `name:"ignore-eos" negatable:"" default:"true" help:"Ask for the full output length (an extension of vLLM)."`
	Seed         *int64 `help:"Seed of prompts and start times; another one each time if absent, so that no prefix cache knows the prompts."`

	JSON string `name:"json" placeholder:"FILE" help:"Also write the report as JSON; - = standard output, instead of the table."`
}

const (
	maxBenchRequests    = 1 << 22
	maxBenchConcurrency = 1 << 16
	maxBenchTokens      = 1 << 20
)

// intRange is a number that must lie between two others, included.
type intRange struct {
	name              string
	value, low, limit int
}

func (r *intRange) check() error {
	if r.value < r.low || r.value > r.limit {
		return fmt.Errorf("%s must be from %d to %d, got %d", r.name, r.low, r.limit, r.value)
	}
	return nil
}

// Check returns the first impossible setting.
func (b *BenchServe) Check() error {
	for _, r := range []intRange{
		{"--num-requests", b.NumRequests, 1, maxBenchRequests},
		{"--concurrency", b.Concurrency, 1, maxBenchConcurrency},
		{"--warmup", b.Warmup, 0, maxBenchRequests},
		{"--prompt-tokens", b.PromptTokens, 1, maxBenchTokens},
		{"--output-tokens", b.OutputTokens, 1, maxBenchTokens},
	} {
		if err := r.check(); err != nil {
			return err
		}
	}
	if !(b.Rate >= 0 && b.Rate <= 1e6) {
		return fmt.Errorf("--rate must be from 0 to 1000000, got %v", b.Rate)
	}
	if !(b.Timeout > 0 && b.Timeout <= maxSeconds) {
		return fmt.Errorf("--timeout must be above 0, got %v", b.Timeout)
	}
	if strings.TrimSpace(b.URL) == "" {
		return errors.New("--url must not be empty")
	}
	return checkURL("--url", b.URL)
}
