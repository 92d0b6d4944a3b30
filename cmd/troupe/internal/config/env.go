package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env is what vLLM's environment variables say; zero values are for those that
// are not set, and leave the decision to who reads them.
type Env struct {
	APIKey           string        // VLLM_API_KEY; --api-key wins
	LogLevel         string        // VLLM_LOGGING_LEVEL: of all but the HTTP server's log
	LogStatsInterval time.Duration // VLLM_LOG_STATS_INTERVAL
	KeepAlive        time.Duration // VLLM_HTTP_TIMEOUT_KEEP_ALIVE
	MaxNumSequences  int           // VLLM_MAX_N_SEQUENCES: largest n
	MaxStopStrings   int           // VLLM_MAX_STOP_STRINGS: most strings in stop
	ResponseStore    bool          // VLLM_ENABLE_RESPONSES_API_STORE: as --enable-response-store

	warnings []string // about values that were not used
}

const (
	maxEnvSeconds   = 24 * 60 * 60
	maxNumSequences = 1 << 20
	maxStopStrings  = 1 << 10 // each is looked for in every piece of text
)

var logLevels = []string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}

func readEnv(getenv func(string) string) (Env, error) {
	e := Env{APIKey: getenv("VLLM_API_KEY")}
	e.readLogStatsInterval(getenv("VLLM_LOG_STATS_INTERVAL"))
	var err error
	level := strings.ToUpper(getenv("VLLM_LOGGING_LEVEL"))
	if level == "WARN" { // Python's other name for it
		level = "WARNING"
	}
	if e.LogLevel, err = oneOf("VLLM_LOGGING_LEVEL", level, logLevels); err != nil {
		return e, err
	}
	seconds, err := envInt("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", getenv, maxEnvSeconds)
	if err != nil {
		return e, err
	}
	e.KeepAlive = time.Duration(seconds) * time.Second
	if e.MaxNumSequences, err = envInt("VLLM_MAX_N_SEQUENCES", getenv, maxNumSequences); err != nil {
		return e, err
	}
	if e.MaxStopStrings, err = envInt("VLLM_MAX_STOP_STRINGS", getenv, maxStopStrings); err != nil {
		return e, err
	}
	store, err := oneOf("VLLM_ENABLE_RESPONSES_API_STORE", getenv("VLLM_ENABLE_RESPONSES_API_STORE"), []string{"0", "1"})
	e.ResponseStore = store == "1"
	return e, err
}

// readLogStatsInterval reads a positive number of seconds. As in vLLM, what is
// none leaves the default.
func (e *Env) readLogStatsInterval(s string) {
	if s == "" {
		return
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= maxEnvSeconds) {
		e.warnings = append(e.warnings, fmt.Sprintf(
			"VLLM_LOG_STATS_INTERVAL is no number of seconds above 0 and at most %d: %q; statistics are logged every 10 s", maxEnvSeconds, s))
		return
	}
	e.LogStatsInterval = time.Duration(v * float64(time.Second))
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
	if value == "" || slices.Contains(values, value) {
		return value, nil
	}
	return "", fmt.Errorf("%s must be one of %s, got %q", name, strings.Join(values, ", "), value)
}
