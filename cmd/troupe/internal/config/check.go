package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/chat/toolcall"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/mcp"
	"github.com/troupe-llm/troupe/model/understudy"
)

// Check returns the first contradiction or impossible value among the settings.
// It knows nothing of the model; CheckModel does the rest.
func (s *Serve) Check() error {
	for _, check := range []func() error{
		s.checkMetrics, s.checkRefused, s.checkTools, s.checkLogging, s.checkHTTP,
		s.checkScheduler, s.checkDevice, s.checkModel, s.checkCluster,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkMetrics comes first: its messages are part of the metrics contract.
func (s *Serve) checkMetrics() error {
	const noStats = "%s requires engine statistics: it cannot be combined with --disable-log-stats"
	switch m := &s.Metrics; {
	case m.DisableLogStats && m.EnablePerRequestMetrics:
		return fmt.Errorf(noStats, "--enable-per-request-metrics")
	case m.DisableLogStats && m.EnablePerTurnMetrics:
		return fmt.Errorf(noStats, "--enable-per-turn-metrics")
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	speculation, err := s.Speculation()
	if level := s.Metrics.PerRequestSpecDecodeMetrics; level != "none" && speculation == nil && err == nil {
		return fmt.Errorf("--per-request-spec-decode-metrics %s requires speculative decoding: set --speculative-config", level)
	}
	return err
}

// The spellings of --metrics-spelling.
const (
	SpellingVLLM        = "vllm"
	SpellingLlamaServer = "llama-server"
	SpellingGroq        = "groq"
)

// Spells reports whether times are written in the words of a server.
func (f *MetricsFlags) Spells(name string) bool { return slices.Contains(f.MetricsSpelling, name) }

// checkTimes checks the flags that add to the times of a request.
func (s *Serve) checkTimes() error {
	m := &s.Metrics
	for _, name := range m.MetricsSpelling {
		if known := []string{SpellingVLLM, SpellingLlamaServer, SpellingGroq}; !slices.Contains(known, name) {
			return fmt.Errorf("--metrics-spelling: invalid spelling %q (choose from %s)", name, strings.Join(known, ", "))
		}
	}
	if !m.EnablePerRequestMetrics && !slices.Equal(m.MetricsSpelling, []string{SpellingVLLM}) {
		return errors.New("--metrics-spelling requires --enable-per-request-metrics")
	}
	for _, f := range []struct {
		name              string
		given, needsTimes bool
	}{
		{"--enable-per-choice-metrics", m.EnablePerChoiceMetrics, true},
		{"--enable-metrics-breakdown", m.EnableMetricsBreakdown, true},
		{"--per-request-spec-decode-metrics", m.PerRequestSpecDecodeMetrics != "none", false},
	} {
		switch {
		case !f.given:
		case f.needsTimes && !m.EnablePerRequestMetrics:
			return fmt.Errorf("%s requires --enable-per-request-metrics", f.name)
		case !m.Spells(SpellingVLLM):
			return fmt.Errorf("%s requires vllm in --metrics-spelling: what it adds is in that object only", f.name)
		}
	}
	return nil
}

func (s *Serve) checkRefused() error {
	if joined, ok := s.refused.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return nil
}

func (s *Serve) checkTools() error {
	parser, family := s.ToolCallParser(), s.Chat.ReasoningParser
	switch {
	case s.Chat.EnableAutoToolChoice && parser == "":
		return errors.New("--enable-auto-tool-choice requires --tool-call-parser")
	case parser != "" && !slices.Contains(toolcall.Formats(), parser):
		return fmt.Errorf("--tool-call-parser: invalid tool call parser %q (choose from %s)", parser, strings.Join(toolcall.Formats(), ", "))
	case family != "" && !slices.Contains(reasoning.Names(), family):
		return fmt.Errorf("--reasoning-parser: invalid reasoning parser %q (choose from %s)", family, strings.Join(reasoning.Names(), ", "))
	}
	return s.checkToolServers()
}

// Bounds of what responses that call tools may be allowed.
const (
	maxToolTurns   = 128
	maxCallSeconds = 3600
)

func (s *Serve) checkToolServers() error {
	c := &s.Chat
	switch {
	case len(c.ToolServer) > mcp.MaxServers:
		return fmt.Errorf("--tool-server: at most %d servers, got %d", mcp.MaxServers, len(c.ToolServer))
	case !(c.ToolCallTimeout > 0 && c.ToolCallTimeout <= maxCallSeconds):
		return fmt.Errorf("--tool-call-timeout must be a number of seconds above 0 and at most %d, got %v", maxCallSeconds, c.ToolCallTimeout)
	case c.MaxToolTurns < 1 || c.MaxToolTurns > maxToolTurns:
		return fmt.Errorf("--max-tool-turns must be from 1 to %d, got %d", maxToolTurns, c.MaxToolTurns)
	}
	_, err := s.ToolServers()
	return err
}

// ToolServers returns the servers of --tool-server.
func (s *Serve) ToolServers() ([]mcp.Target, error) {
	var targets []mcp.Target
	for i, text := range s.Chat.ToolServer {
		t, err := mcp.ParseTarget(strings.TrimSpace(text))
		if err != nil { // the address may hold a secret
			return nil, fmt.Errorf("--tool-server: entry %d: %w", i+1, err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// ToolCallParser returns how the model writes calls, "" if nobody has said so. The
// built-in model's way is known.
func (s *Serve) ToolCallParser() string {
	path := s.ModelPath()
	if s.Chat.ToolCallParser == "" && (path == "" || path == understudy.Name) {
		return understudy.ToolCallParser
	}
	return s.Chat.ToolCallParser
}

func (s *Serve) checkLogging() error {
	if s.Logging.EnableLogOutputs && !s.Logging.EnableLogRequests {
		return errors.New("--enable-log-outputs requires --enable-log-requests")
	}
	if n := s.Logging.MaxLogLen; n != nil && *n < 0 {
		return fmt.Errorf("--max-log-len must be at least 0, got %d", *n)
	}
	return nil
}

// maxSeconds bounds durations given in seconds: a year.
const maxSeconds = 366 * 24 * 60 * 60

func (s *Serve) checkHTTP() error {
	h := &s.HTTP
	if h.SSEKeepAliveInterval < 0 || !(h.SSEKeepAliveInterval <= maxSeconds) {
		return fmt.Errorf("--sse-keep-alive-interval must be a number of seconds from 0 to %d, got %v", maxSeconds, h.SSEKeepAliveInterval)
	}
	if h.ShutdownTimeout < 0 || !(h.ShutdownTimeout <= maxSeconds) {
		return fmt.Errorf("--shutdown-timeout must be a number of seconds from 0 to %d, got %v", maxSeconds, h.ShutdownTimeout)
	}
	if h.Port < 0 || h.Port > 65535 {
		return fmt.Errorf("--port must be from 0 to 65535, got %d", h.Port)
	}
	if h.SSLCertfile == "" && (h.SSLKeyfile != "" || h.SSLCACerts != "" || h.SSLCertReqs != 0 || h.SSLCiphers != "" || h.EnableSSLRefresh) {
		return errors.New("--ssl-keyfile, --ssl-ca-certs, --ssl-cert-reqs, --ssl-ciphers and --enable-ssl-refresh require --ssl-certfile")
	}
	if slices.Contains(h.ServedModelName, "") {
		return errors.New("--served-model-name must not be empty")
	}
	if h.RootPath != "" && !strings.HasPrefix(h.RootPath, "/") {
		return fmt.Errorf("--root-path must begin with a slash, got %q", h.RootPath)
	}
	for _, r := range []struct {
		name       string
		value      *HumanInt
		low, limit HumanInt
	}{
		{"--max-request-body-bytes", &h.MaxRequestBodyBytes, 1 << 10, 1 << 30},
		{"--max-request-header-bytes", &h.MaxRequestHeaderBytes, 4 << 10, 1 << 20},
		{"--max-response-body-bytes", &h.MaxResponseBodyBytes, 1 << 20, 1 << 36},
		{"--max-connections", h.MaxConnections, 1, 1 << 24},
	} {
		if err := inRange(r.name, r.value, r.low, r.limit); err != nil {
			return err
		}
	}
	if err := inRange("--max-num-queued-reqs", h.MaxNumQueuedReqs, 1, maxHumanInt); err != nil {
		return err
	}
	return inRange("--max-num-queued-tokens", h.MaxNumQueuedTokens, 1, maxHumanInt)
}

func (s *Serve) checkScheduler() error {
	c := &s.Scheduler
	for _, r := range []struct {
		name       string
		value      *HumanInt
		low, limit HumanInt
	}{
		{"--max-num-seqs", c.MaxNumSeqs, 1, maxSeqs},
		{"--max-num-batched-tokens", c.MaxNumBatchedTokens, 1, maxBatchedTokens},
		{"--kv-cache-memory-bytes", c.KVCacheMemoryBytes, 1, maxHumanInt},
		{"--num-gpu-blocks-override", c.NumGPUBlocksOverride, 1, maxBlocks},
		{"--long-prefill-token-threshold", &c.LongPrefillTokenThreshold, 0, maxBatchedTokens},
	} {
		if err := inRange(r.name, r.value, r.low, r.limit); err != nil {
			return err
		}
	}
	if c.DataParallelSize < 1 || c.DataParallelSize > maxBatchers {
		return fmt.Errorf("--data-parallel-size must be from 1 to %d, got %d", maxBatchers, c.DataParallelSize)
	}
	if !(c.StepTimeout >= 0 && c.StepTimeout <= maxSeconds) {
		return fmt.Errorf("--step-timeout must be a number of seconds from 0 to %d, got %v", maxSeconds, c.StepTimeout)
	}
	if !(c.RecoveryTimeout > 0 && c.RecoveryTimeout <= maxSeconds) {
		return fmt.Errorf("--recovery-timeout must be a number of seconds above 0 and at most %d, got %v", maxSeconds, c.RecoveryTimeout)
	}
	if c.StreamInterval < 1 {
		return fmt.Errorf("--stream-interval must be at least 1, got %d", c.StreamInterval)
	}
	if t := c.ITLTargetMs; !(t >= 0 && t <= maxITLTargetMs) {
		return fmt.Errorf("--itl-target-ms must be from 0 to %d, got %v", maxITLTargetMs, t)
	} else if t > 0 && !c.EnableChunkedPrefill {
		return fmt.Errorf("--itl-target-ms %v cuts prompts into chunks: it cannot be kept with --no-enable-chunked-prefill", t)
	}
	if b := c.BlockSize; b != nil && (*b < 1 || *b > maxBlockSize) {
		return fmt.Errorf("--block-size must be from 1 to %d, got %d", maxBlockSize, *b)
	}
	if c.MaxNumBatchedTokens != nil && int(*c.MaxNumBatchedTokens) < s.MaxNumSeqs() {
		return fmt.Errorf("--max-num-batched-tokens (%d) must not be below --max-num-seqs (%d)", *c.MaxNumBatchedTokens, s.MaxNumSeqs())
	}
	if n := s.Model.MaxModelLen; n != nil && *n > 0 {
		return s.CheckContext(int(*n))
	}
	return nil
}

// CheckContext is the check that needs the context length in tokens.
func (s *Serve) CheckContext(maxModelLen int) error {
	n := s.Scheduler.MaxNumBatchedTokens
	if s.Scheduler.EnableChunkedPrefill || n == nil || int(*n) >= maxModelLen {
		return nil
	}
	return fmt.Errorf("--max-num-batched-tokens (%d) must not be below --max-model-len (%d) with --no-enable-chunked-prefill", *n, maxModelLen)
}

func (s *Serve) checkModel() error {
	m := &s.Model
	if m.MaxLogprobs < -1 {
		return fmt.Errorf("--max-logprobs must be at least -1, got %d", m.MaxLogprobs)
	}
	if n := m.MaxModelLen; n != nil && *n < 1 && *n != -1 {
		return fmt.Errorf("--max-model-len must be at least 1, or -1 for the largest that fits, got %d", *n)
	}
	if _, err := s.SamplingDefaults(infer.SamplingDefaults{}); err != nil {
		return err
	}
	if s.Positional != "" && m.Model != "" && s.Positional != m.Model {
		return fmt.Errorf("MODEL %q and --model %q differ: give one", s.Positional, m.Model)
	}
	return nil
}

// inRange checks a value that may be absent.
func inRange(name string, n *HumanInt, low, limit HumanInt) error {
	if n == nil || *n >= low && *n <= limit {
		return nil
	}
	return fmt.Errorf("%s must be from %d to %d, got %d", name, low, limit, *n)
}

// Limits of what is sensible, so that a typing error cannot ask for all memory.
const (
	maxSeqs          = 1 << 16
	maxBatchedTokens = 1 << 22
	maxBlocks        = 1 << 26
	maxBatchers      = 64
)

const (
	defaultMaxNumSeqs          = 256
	defaultMaxNumBatchedTokens = 2048
	defaultBlockSize           = 16
	maxBlockSize               = 1024
	maxITLTargetMs             = 60_000
)

// MaxNumSeqs returns the most sequences per step.
func (s *Serve) MaxNumSeqs() int {
	if n := s.Scheduler.MaxNumSeqs; n != nil {
		return int(*n)
	}
	// A token budget given alone bounds the sequences too.
	if n := s.Scheduler.MaxNumBatchedTokens; n != nil {
		return min(defaultMaxNumSeqs, int(*n))
	}
	return defaultMaxNumSeqs
}

// MaxNumBatchedTokens returns the most tokens per step for a context length;
// without chunked prefill a whole context must fit into a step.
func (s *Serve) MaxNumBatchedTokens(maxModelLen int) int {
	if n := s.Scheduler.MaxNumBatchedTokens; n != nil {
		return int(*n)
	}
	n := max(defaultMaxNumBatchedTokens, s.MaxNumSeqs())
	if !s.Scheduler.EnableChunkedPrefill {
		n = max(n, maxModelLen)
	}
	return n
}

// BlockSize returns the tokens per KV block.
func (s *Serve) BlockSize() int {
	if b := s.Scheduler.BlockSize; b != nil {
		return *b
	}
	return defaultBlockSize
}

// GPUMemoryUtilization returns what vllm:cache_config_info shows under that name.
func (s *Serve) GPUMemoryUtilization() string { return cmp.Or(s.memoryShare, defaultMemoryShare) }

// ModelPath returns the folder to load, "" for the embedded model.
func (s *Serve) ModelPath() string {
	if s.Positional != "" {
		return s.Positional
	}
	return s.Model.Model
}

// Local returns where a model is: on disk if it is of a hub and has been fetched,
// else what was given.
func (s *Serve) Local(model string) string { return cmp.Or(s.Fetched[model], model) }

// ModelName returns the name of a model of a hub, "" for all others.
func (s *Serve) ModelName() string {
	if s.Fetched[s.ModelPath()] == "" {
		return ""
	}
	return s.ModelPath()
}

// APIKeys returns the keys that clients may use; none = open. --api-key replaces
// VLLM_API_KEY; empty keys count as not given.
func (s *Serve) APIKeys() []string {
	keys := s.HTTP.APIKey
	if len(keys) == 0 {
		keys = []string{s.Env.APIKey}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" })
}

// Address returns where to listen: network and address for net.Listen.
func (s *Serve) Address() (network, address string) {
	if s.HTTP.UDS != "" {
		return "unix", s.HTTP.UDS
	}
	return "tcp", net.JoinHostPort(s.HTTP.Host, fmt.Sprint(s.HTTP.Port))
}
