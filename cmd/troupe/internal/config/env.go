package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/metrics"
)

// Env is what vLLM's environment variables say.
type Env struct {
	APIKey           string        // VLLM_API_KEY; --api-key wins
	LogLevel         string        // VLLM_LOGGING_LEVEL: of all but the HTTP server's log; "" = INFO
	LogStatsInterval time.Duration // VLLM_LOG_STATS_INTERVAL
	KeepAlive        time.Duration // VLLM_HTTP_TIMEOUT_KEEP_ALIVE; 0 = the server's default
	MaxNumSequences  int           // VLLM_MAX_N_SEQUENCES: largest n
}

const (
	defaultMaxNumSequences = 16384
	maxKeepAliveSeconds    = 24 * 60 * 60
)

var logLevels = []string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}

func readEnv(getenv func(string) string) (Env, error) {
	e := Env{APIKey: getenv("VLLM_API_KEY"), MaxNumSequences: defaultMaxNumSequences}
	var err error
	if e.LogStatsInterval, err = metrics.ParseLogInterval(getenv("VLLM_LOG_STATS_INTERVAL")); err != nil {
		return e, err
	}
	if e.LogLevel, err = oneOf("VLLM_LOGGING_LEVEL", strings.ToUpper(getenv("VLLM_LOGGING_LEVEL")), logLevels); err != nil {
		return e, err
	}
	seconds, err := envInt("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", getenv, maxKeepAliveSeconds)
	if err != nil {
		return e, err
	}
	e.KeepAlive = time.Duration(seconds) * time.Second
	n, err := envInt("VLLM_MAX_N_SEQUENCES", getenv, 1<<20)
	if err != nil {
		return e, err
	}
	if n > 0 {
		e.MaxNumSequences = n
	}
	return e, nil
}

// envInt reads a positive integer up to limit; 0 = not set.
func envInt(name string, getenv func(string) string, limit int) (int, error) {
	s := getenv(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > limit {
		return 0, fmt.Errorf("%s must be an integer from 1 to %d, got %q", name, limit, s)
	}
	return n, nil
}

func oneOf(name, value string, values []string) (string, error) {
	if value == "" {
		return "", nil
	}
	for _, v := range values {
		if v == value {
			return v, nil
		}
	}
	return "", fmt.Errorf("%s must be one of %s, got %q", name, strings.Join(values, ", "), value)
}
