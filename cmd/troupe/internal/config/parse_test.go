package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

func noEnv(string) string { return "" }

func parse(args ...string) (*config.CLI, config.Command, error) {
	return config.Parse(args, config.Options{Getenv: noEnv, Help: &bytes.Buffer{}})
}

// parseServe parses flags of serve that must be right.
func parseServe(t *testing.T, args ...string) *config.Serve {
	t.Helper()
	cli, command, err := parse(append([]string{"serve"}, args...)...)
	require.NoError(t, err)
	require.Equal(t, config.CommandServe, command)
	return &cli.Serve
}

func ptr[T any](v T) *T { return &v }

// TestServeFlags gives every flag of ours a value and checks its default; both
// are compared as Go values of the field.
func TestServeFlags(t *testing.T) {
	type field = func(*config.Serve) any
	tests := []struct {
		flag  string // as on the command line, several words allowed
		get   field
		value any // after the flag
		dflt  any
	}{
		{"--enable-per-request-metrics", func(s *config.Serve) any { return s.Metrics.EnablePerRequestMetrics }, true, false},
		{"--enable-per-choice-metrics", func(s *config.Serve) any { return s.Metrics.EnablePerChoiceMetrics }, true, false},
		{"--enable-metrics-breakdown", func(s *config.Serve) any { return s.Metrics.EnableMetricsBreakdown }, true, false},
		{"--metrics-spelling vllm,groq", func(s *config.Serve) any { return s.Metrics.MetricsSpelling }, []string{"vllm", "groq"}, []string{"vllm"}},
		{"--per-request-spec-decode-metrics summary", func(s *config.Serve) any { return s.Metrics.PerRequestSpecDecodeMetrics }, "summary", "none"},
		{"--disable-log-stats", func(s *config.Serve) any { return s.Metrics.DisableLogStats }, true, false},
		{"--enable-force-include-usage", func(s *config.Serve) any { return s.Metrics.EnableForceIncludeUsage }, true, false},
		{"--enable-prompt-tokens-details", func(s *config.Serve) any { return s.Metrics.EnablePromptTokensDetails }, true, false},
		{"--enable-server-load-tracking", func(s *config.Serve) any { return s.Metrics.EnableServerLoadTracking }, true, false},

		{"--host 127.0.0.1", func(s *config.Serve) any { return s.HTTP.Host }, "127.0.0.1", ""},
		{"--port 0", func(s *config.Serve) any { return s.HTTP.Port }, 0, 8000},
		{"--uds /run/t.sock", func(s *config.Serve) any { return s.HTTP.UDS }, "/run/t.sock", ""},
		{"--api-key a b", func(s *config.Serve) any { return s.APIKeys() }, []string{"a", "b"}, []string{}},
		{"--api-keys-file f.yaml", func(s *config.Serve) any { return s.HTTP.APIKeysFile }, "f.yaml", ""},
		{"--admin-api-key a", func(s *config.Serve) any { return s.HTTP.AdminAPIKey }, "a", ""},
		{"--enable-fault-injection", func(s *config.Serve) any { return s.HTTP.EnableFaultInjection }, true, false},
		{"--enable-response-store", func(s *config.Serve) any { return s.HTTP.EnableResponseStore }, true, false},
		{"--request-log f.jsonl", func(s *config.Serve) any { return s.Logging.RequestLog }, "f.jsonl", ""},
		{"--served-model-name a b", func(s *config.Serve) any { return s.HTTP.ServedModelName }, []string{"a", "b"}, []string(nil)},
		{"--enable-request-id-headers", func(s *config.Serve) any { return s.HTTP.EnableRequestIDHeaders }, true, false},
		{"--ssl-keyfile k", func(s *config.Serve) any { return s.HTTP.SSLKeyfile }, "k", ""},
		{"--ssl-certfile c", func(s *config.Serve) any { return s.HTTP.SSLCertfile }, "c", ""},
		{"--ssl-ca-certs a", func(s *config.Serve) any { return s.HTTP.SSLCACerts }, "a", ""},
		{"--ssl-cert-reqs 2", func(s *config.Serve) any { return s.HTTP.SSLCertReqs }, 2, 0},
		{"--ssl-ciphers x:y", func(s *config.Serve) any { return s.HTTP.SSLCiphers }, "x:y", ""},
		{"--enable-ssl-refresh", func(s *config.Serve) any { return s.HTTP.EnableSSLRefresh }, true, false},
		{"--root-path /x", func(s *config.Serve) any { return s.HTTP.RootPath }, "/x", ""},
		{`--allowed-origins ["https://a"]`, func(s *config.Serve) any { return s.HTTP.AllowedOrigins.Items }, []string{"https://a"}, []string{"*"}},
		{`--allowed-methods ["GET"]`, func(s *config.Serve) any { return s.HTTP.AllowedMethods.Items }, []string{"GET"}, []string{"*"}},
		{`--allowed-headers ["X"]`, func(s *config.Serve) any { return s.HTTP.AllowedHeaders.Items }, []string{"X"}, []string{"*"}},
		{"--allow-credentials", func(s *config.Serve) any { return s.HTTP.AllowCredentials }, true, false},
		{"--uvicorn-log-level debug", func(s *config.Serve) any { return s.HTTP.UvicornLogLevel }, "debug", "info"},
		{"--disable-uvicorn-access-log", func(s *config.Serve) any { return s.HTTP.DisableUvicornAccessLog }, true, false},
		{"--disable-access-log-for-endpoints /a,/b", func(s *config.Serve) any { return s.HTTP.DisableAccessLogForEndpoints }, []string{"/a", "/b"}, []string(nil)},
		{"--sse-keep-alive-interval 1.5", func(s *config.Serve) any { return s.HTTP.SSEKeepAliveInterval }, 1.5, 0.0},
		{"--shutdown-timeout 30", func(s *config.Serve) any { return s.HTTP.ShutdownTimeout }, 30.0, 0.0},
		{"--max-num-queued-reqs 10", func(s *config.Serve) any { return s.HTTP.MaxNumQueuedReqs }, ptr(config.HumanInt(10)), (*config.HumanInt)(nil)},
		{"--max-num-queued-tokens 1M", func(s *config.Serve) any { return s.HTTP.MaxNumQueuedTokens }, ptr(config.HumanInt(1 << 20)), (*config.HumanInt)(nil)},

		{"--enable-log-requests", func(s *config.Serve) any { return s.Logging.EnableLogRequests }, true, false},
		{"--max-log-len 80", func(s *config.Serve) any { return s.Logging.MaxLogLen }, ptr(80), (*int)(nil)},
		{"--enable-log-outputs", func(s *config.Serve) any { return s.Logging.EnableLogOutputs }, true, false},
		{"--no-enable-log-deltas", func(s *config.Serve) any { return s.Logging.EnableLogDeltas }, false, true},

		{"--chat-template {{x}}", func(s *config.Serve) any { return s.Chat.ChatTemplate }, "{{x}}", ""},
		{"--chat-template-content-format openai", func(s *config.Serve) any { return s.Chat.ChatTemplateContentFormat }, "openai", "auto"},
		{"--trust-request-chat-template", func(s *config.Serve) any { return s.Chat.TrustRequestChatTemplate }, true, false},
		{`--default-chat-template-kwargs {"a":1}`, func(s *config.Serve) any { return string(s.Chat.DefaultChatTemplateKwargs.Raw) }, `{"a":1}`, ""},
		{"--response-role bot", func(s *config.Serve) any { return s.Chat.ResponseRole }, "bot", "assistant"},
		{"--enable-auto-tool-choice", func(s *config.Serve) any { return s.Chat.EnableAutoToolChoice }, true, false},
		{"--reasoning-parser glm45", func(s *config.Serve) any { return s.Chat.ReasoningParser }, "glm45", ""},
		{"--exclude-tools-when-tool-choice-none", func(s *config.Serve) any { return s.Chat.ExcludeToolsWhenNone }, true, false},
		{"--tool-call-parser hermes", func(s *config.Serve) any { return s.Chat.ToolCallParser }, "hermes", ""},
		{"--return-tokens-as-token-ids", func(s *config.Serve) any { return s.Chat.ReturnTokensAsTokenIDs }, true, false},

		{"--model dir", func(s *config.Serve) any { return s.ModelPath() }, "dir", ""},
		{"--tokenizer dir", func(s *config.Serve) any { return s.Model.Tokenizer }, "dir", ""},
		{"--revision v1", func(s *config.Serve) any { return s.Model.Hub.Revision }, "v1", ""},
		{"--download-dir dir", func(s *config.Serve) any { return s.Model.Hub.DownloadDir }, "dir", ""},
		{"--max-model-len 32K", func(s *config.Serve) any { return s.Model.MaxModelLen }, ptr(config.ContextLength(32768)), (*config.ContextLength)(nil)},
		{"--weights-cache /tmp/w", func(s *config.Serve) any { return s.Model.WeightsCache }, "/tmp/w", ""},
		{"--quantization q8_0", func(s *config.Serve) any { return s.Model.Quantization }, "q8_0", "none"},
		{"--dtype bfloat16", func(s *config.Serve) any { return s.Model.DType }, "bfloat16", "auto"},
		{"--seed -3", func(s *config.Serve) any { return s.Model.Seed }, int64(-3), int64(0)},
		{"--max-logprobs -1", func(s *config.Serve) any { return s.Model.MaxLogprobs }, -1, 20},
		{"--generation-config vllm", func(s *config.Serve) any { return s.Model.GenerationConfig }, "vllm", "auto"},
		{`--override-generation-config {"top_k":3}`, func(s *config.Serve) any { return string(s.Model.OverrideGenerationConfig.Raw) }, `{"top_k":3}`, "{}"},
		{`--speculative-config {"method":"ngram"}`, func(s *config.Serve) any { return string(s.Model.SpeculativeConfig.Raw) }, `{"method":"ngram"}`, ""},

		{"--max-num-seqs 4", func(s *config.Serve) any { return s.MaxNumSeqs() }, 4, 256},
		{"--max-num-batched-tokens 4k", func(s *config.Serve) any { return s.MaxNumBatchedTokens(512) }, 4000, 2048},
		{"--no-enable-chunked-prefill", func(s *config.Serve) any { return s.Scheduler.EnableChunkedPrefill }, false, true},
		{"--no-enable-prefix-caching", func(s *config.Serve) any { return s.Scheduler.EnablePrefixCaching }, false, true},
		{"--scheduling-policy priority", func(s *config.Serve) any { return s.Scheduler.SchedulingPolicy }, "priority", "fcfs"},
		{"--data-parallel-size 2", func(s *config.Serve) any { return s.Scheduler.DataParallelSize }, 2, 1},
		{"--step-timeout 1.5", func(s *config.Serve) any { return s.Scheduler.StepTimeout }, 1.5, 0.0},
		{"--recovery-timeout 5", func(s *config.Serve) any { return s.Scheduler.RecoveryTimeout }, 5.0, 30.0},
		{"--stream-interval 8", func(s *config.Serve) any { return s.Scheduler.StreamInterval }, 8, 1},
		{"--long-prefill-token-threshold 1k", func(s *config.Serve) any { return s.Scheduler.LongPrefillTokenThreshold }, config.HumanInt(1000), config.HumanInt(0)},
		{"--itl-target-ms 12.5", func(s *config.Serve) any { return s.Scheduler.ITLTargetMs }, 12.5, 0.0},
		{"--block-size 32", func(s *config.Serve) any { return s.BlockSize() }, 32, 16},
		{"--kv-cache-memory-bytes 1.5g", func(s *config.Serve) any { return s.Scheduler.KVCacheMemoryBytes }, ptr(config.HumanInt(1.5e9)), (*config.HumanInt)(nil)},
		{"--kv-cache-dtype bfloat16", func(s *config.Serve) any { return s.Scheduler.KVCacheDType }, "bfloat16", "auto"},
		{"--kv-cache-prefault", func(s *config.Serve) any { return s.Scheduler.KVCachePrefault }, true, false},
		{"--kv-cache-dtype int8", func(s *config.Serve) any { return s.Scheduler.KVCacheDType }, "int8", "auto"},
		{"--num-gpu-blocks-override 64", func(s *config.Serve) any { return s.Scheduler.NumGPUBlocksOverride }, ptr(config.HumanInt(64)), (*config.HumanInt)(nil)},
	}
	defaults := parseServe(t)
	for _, tt := range tests {
		t.Run(tt.flag, func(t *testing.T) {
			require.Equal(t, tt.dflt, tt.get(defaults), "default")
			words := strings.Fields(tt.flag)
			require.Equal(t, tt.value, tt.get(parseServe(t, words...)), "--flag value")
			underscored := append([]string{"--" + strings.ReplaceAll(words[0][2:], "-", "_")}, words[1:]...)
			require.Equal(t, tt.value, tt.get(parseServe(t, underscored...)), "underscores")
			if len(words) == 2 {
				require.Equal(t, tt.value, tt.get(parseServe(t, words[0]+"="+words[1])), "--flag=value")
			}
		})
	}
}

func TestEveryBooleanHasATwin(t *testing.T) {
	for _, name := range []string{
		"enable-per-request-metrics", "disable-log-stats", "enable-force-include-usage", "enable-prompt-tokens-details",
		"enable-server-load-tracking", "enable-request-id-headers", "allow-credentials", "disable-uvicorn-access-log",
		"enable-log-requests", "enable-log-outputs", "enable-log-deltas", "trust-request-chat-template",
		"enable-auto-tool-choice", "exclude-tools-when-tool-choice-none", "return-tokens-as-token-ids", "enable-response-store", "enable-chunked-prefill", "enable-prefix-caching",
	} {
		off := parseServe(t, "--no-"+name)
		require.Equal(t, off, parseServe(t, "--"+name, "--no_"+strings.ReplaceAll(name, "-", "_")), name)
		require.Equal(t, off, parseServe(t, "--"+name+"=false"), name)
		require.NotEqual(t, off, parseServe(t, "--"+name), name)
	}
}

func TestListsEndAtTheNextFlag(t *testing.T) {
	s := parseServe(t, "dir", "--served-model-name", "a", "b", "c", "--api-key", "k1", "--api_key=k2", "--port", "1")
	require.Equal(t, "dir", s.ModelPath())
	require.Equal(t, []string{"a", "b", "c"}, s.HTTP.ServedModelName)
	require.Equal(t, []string{"k1", "k2"}, s.APIKeys())
	require.Equal(t, []string{"a,b"}, parseServe(t, "--served-model-name", "a,b").HTTP.ServedModelName)
	require.Equal(t, "dir", parseServe(t, "--served-model-name", "a", "--", "dir").ModelPath())
}

func TestDottedMembers(t *testing.T) {
	s := parseServe(t, "--speculative-config.method", "ngram", "--speculative_config.num_speculative_tokens=3",
		"--speculative-config.a.b-c", "[1,2]", "--override-generation-config", `{"top_k":3}`, "--override-generation-config.top_p", "0.5")
	require.JSONEq(t, `{"method":"ngram","num_speculative_tokens":3,"a":{"b-c":[1,2]}}`, string(s.Model.SpeculativeConfig.Raw))
	require.JSONEq(t, `{"top_k":3,"top_p":0.5}`, string(s.Model.OverrideGenerationConfig.Raw))

	require.Empty(t, parseServe(t, "--default-chat-template-kwargs", " null ").Chat.DefaultChatTemplateKwargs.Raw)
	s = parseServe(t, "--speculative-config", "null", "--speculative-config.a", "1",
		"--override-generation-config.top_p", "0.5", "--override-generation-config", `{"min_p":1}`, "--override-generation-config", `{"top_k":3}`)
	require.JSONEq(t, `{"a":1}`, string(s.Model.SpeculativeConfig.Raw))
	require.JSONEq(t, `{"top_k":3,"top_p":0.5}`, string(s.Model.OverrideGenerationConfig.Raw), "members are set last, whatever their place")
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"serve --no-such-flag", "unknown flag --no-such-flag"},
		{"serve --no-such-flag=3 dir", "unknown flag --no-such-flag"},
		{"serve --prt 3", "unknown flag --prt"},
		{"serve -z", "unknown flag -z"},
		{"serve --port many", "--port"},
		{"serve --port", "--port: a value is missing"},
		{"serve --port --host x", "--port: a value is missing"},
		{"serve --dtype int3", "--dtype must be one of"},
		{"serve --per-request-spec-decode-metrics all", "--per-request-spec-decode-metrics must be one of"},
		{"serve --per-request-spec-decode-metrics", "a value is missing"},
		{"serve --max-model-len long", `got "long"`},
		{"serve --max-model-len 1.5K", "did you mean 1.5k?"},
		{"serve --kv-cache-memory-bytes 99999999T", "too large"},
		{"serve --kv-cache-memory-bytes 99999999t", "too large"},
		{"serve --disable-log-stats=perhaps", "takes no value"},
		{"serve --no-disable-log-stats=true", "takes no value"},
		{"serve --allowed-origins *", "expected a JSON list"},
		{"serve --override-generation-config [1]", "expected a JSON object"},
		{"serve --override-generation-config [1] --override-generation-config.a 1", "expected a JSON object"},
		{"serve --override-generation-config. 1", "member's name is missing"},
		{"serve one two", "unexpected argument two"},
		{"serve --help=nonsense", "no such group or flag"},
		{"serve --config /does/not/exist.yaml", "/does/not/exist.yaml"},
		{"dance", `unknown command "dance"`},
		{"bench", "a command is missing"},
		{"bench clients --port 1", `unknown command "bench clients"`},
		{"--port 1", "unknown flag"},
		{"", "a command is missing"},
		{"bench serve --tensor-parallel-size 1", "unknown flag"},
		{"serve --logprobs-mode raw", "--logprobs-mode must be one of raw_logprobs,"},
		{"serve --runner fast", "--runner must be one of auto,"},
		{"serve --quantization awq", `--quantization must be one of "none","q8_0","q4_0"`},
		{"serve --load-format zip", "--load-format must be one of auto,"},
		{"serve --convert all", "--convert must be one of auto,"},
		{"bench serve --endpoint ftp", "--endpoint must be one of"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			_, _, err := parse(strings.Fields(tt.line)...)
			var usage *config.UsageError
			require.ErrorAs(t, err, &usage)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestForeignFlags(t *testing.T) {
	for _, tt := range []struct{ line, warning, refusal string }{
		{"--enforce-eager", "--enforce-eager is accepted and ignored", ""},
		{"--swap-space 4", "--swap-space is accepted and ignored", ""},
		{"--swap_space=4 --swap-space 8", "--swap-space is accepted and ignored", ""},
		{"--device cpu --gpu-memory-utilization 0.5", "--kv-cache-memory-bytes", ""},
		{"-O3", "--compilation-config is accepted and ignored", ""},
		{"-O.level 3", "--compilation-config is accepted and ignored", ""},
		{"--compilation-config.level 3", "--compilation-config is accepted and ignored", ""},
		{"--middleware a b", "--middleware is accepted and ignored", ""},
		{"--no-enforce-eager", "", ""},
		{"-tp 1", "", ""},
		{"--tensor-parallel-size=1", "", ""},
		{"-tp 2", "", "--tensor-parallel-size 2 is not supported"},
		{"-q none", "", ""},
		{"-q q4_0", "", ""},
		{"--logprobs-mode raw_logprobs", "", ""},
		{"--logprobs-mode raw_logits", "", "--logprobs-mode raw_logits is not supported"},
		{"--headless", "--headless is accepted and ignored", ""},
		{"--grpc", "--grpc is accepted and ignored", ""},
		{"--skip-tokenizer-init", "--skip-tokenizer-init is accepted and ignored", ""},
		{`--hf-overrides {"a":1}`, "--hf-overrides is accepted and ignored", ""},
		{"--enable-prompt-embeds", "--enable-prompt-embeds is accepted and ignored", ""},
		{"--enable-sleep-mode", "--enable-sleep-mode is accepted and ignored", ""},
		{"--runner pooling", "", "--runner pooling is not supported"},
		{"--enable-lora", "", "--enable-lora is not supported"},
		{"--no-enable-lora", "", ""},
		{`--structured-outputs-config {"backend":"auto"}`, "", ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			s := parseServe(t, strings.Fields(tt.line)...)
			if tt.warning == "" {
				require.Empty(t, s.Warnings)
			} else {
				require.Len(t, s.Warnings, 1)
				require.Contains(t, s.Warnings[0], tt.warning)
			}
			if tt.refusal == "" {
				require.NoError(t, s.Check())
			} else {
				require.ErrorContains(t, s.Check(), tt.refusal)
			}
		})
	}
}

func TestMemoryShareAndShortForms(t *testing.T) {
	require.Equal(t, "0.92", parseServe(t).GPUMemoryUtilization())
	require.Equal(t, "0.5", parseServe(t, "--gpu_memory_utilization=0.5").GPUMemoryUtilization())
	require.Equal(t, 2, parseServe(t, "-dp", "2").Scheduler.DataParallelSize)
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfigFile(t *testing.T) {
	path := writeConfig(t, `
model: from-file
port: 9000
served_model_name: [one, two]
api-key: single
enable-prefix-caching: false
enable_per_request_metrics: true
max-model-len: 32K
host: null
override-generation-config: {top_k: 3}
swap-space: 4
`)
	s := parseServe(t, "--config", path)
	require.Equal(t, "from-file", s.ModelPath())
	require.Equal(t, 9000, s.HTTP.Port)
	require.Equal(t, []string{"one", "two"}, s.HTTP.ServedModelName)
	require.Equal(t, []string{"single"}, s.APIKeys())
	require.False(t, s.Scheduler.EnablePrefixCaching)
	require.True(t, s.Metrics.EnablePerRequestMetrics)
	require.Equal(t, config.ContextLength(32768), *s.Model.MaxModelLen)
	require.JSONEq(t, `{"top_k":3}`, string(s.Model.OverrideGenerationConfig.Raw))
	require.Len(t, s.Warnings, 1)
	require.Empty(t, s.HTTP.Host)

	s = parseServe(t, "--port", "1", "--served-model-name", "x", "--enable-prefix-caching", "--config="+path, "--model", "line")
	require.Equal(t, 1, s.HTTP.Port)
	require.Equal(t, []string{"x"}, s.HTTP.ServedModelName)
	require.True(t, s.Scheduler.EnablePrefixCaching)
	require.Equal(t, "line", s.ModelPath())
	s = parseServe(t, "word", "--config", path)
	require.Equal(t, "word", s.ModelPath())
	require.NoError(t, s.Check())
	require.Error(t, parseServe(t, "word", "--config", path, "--model", "other").Check())

	s = parseServe(t, "--config", writeConfig(t, "no-enable-prefix-caching: true\nno_disable_log_stats: false\nno-enforce-eager: true"))
	require.False(t, s.Scheduler.EnablePrefixCaching)
	require.True(t, s.Metrics.DisableLogStats)
	require.Empty(t, s.Warnings)
}

func TestConfigFileErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"no_such_flag: 1", `line 1: unknown key "no_such_flag"`},
		{"port: 1\nconfig: x", `line 2: unknown key "config"`},
		{"- port", "expected flags as keys"},
		{"port: [", "yaml"},
		{"no-disable-log-stats: maybe", "expected true or false"},
		{"no-port: 1", `unknown key "no-port"`},
		{"disable-log-stats: maybe", "expected true or false"},
		{"port: many", "--port"},
		{"port: 1\nport: 2", ""},
		{strings.Repeat("#", 2<<20), "larger than"},
	} {
		_, _, err := parse("serve", "--config", writeConfig(t, tt.text))
		if tt.want == "" {
			require.NoError(t, err)
			continue
		}
		var usage *config.UsageError
		require.ErrorAs(t, err, &usage)
		require.ErrorContains(t, err, tt.want)
	}
	s := parseServe(t, "--config", writeConfig(t, "# nothing"))
	require.Equal(t, 8000, s.HTTP.Port)
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"VLLM_API_KEY": "k", "VLLM_LOG_STATS_INTERVAL": "2.5", "VLLM_LOGGING_LEVEL": "debug",
		"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "7", "VLLM_MAX_N_SEQUENCES": "99",
		"VLLM_MAX_STOP_STRINGS": "8", "VLLM_ENABLE_RESPONSES_API_STORE": "1",
	}
	getenv := func(name string) string { return env[name] }
	cli, _, err := config.Parse([]string{"serve"}, config.Options{Getenv: getenv})
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, cli.Serve.APIKeys())
	require.Equal(t, 2.5, cli.Serve.Env.LogStatsInterval.Seconds())
	require.Equal(t, "DEBUG", cli.Serve.Env.LogLevel)
	require.Equal(t, 7.0, cli.Serve.Env.KeepAlive.Seconds())
	require.Equal(t, 99, cli.Serve.Env.MaxNumSequences)
	require.Equal(t, 8, cli.Serve.Env.MaxStopStrings)
	require.True(t, cli.Serve.Env.ResponseStore)
	require.Empty(t, cli.Serve.Warnings)

	for _, interval := range []string{"0", "-1", "ten", "NaN", "Inf", "1e300"} {
		env["VLLM_LOG_STATS_INTERVAL"] = interval
		cli, _, err = config.Parse([]string{"serve"}, config.Options{Getenv: getenv})
		require.NoError(t, err)
		require.Zero(t, cli.Serve.Env.LogStatsInterval, "the default")
		require.Len(t, cli.Serve.Warnings, 1)
		require.Contains(t, cli.Serve.Warnings[0], "VLLM_LOG_STATS_INTERVAL")
	}
	delete(env, "VLLM_LOG_STATS_INTERVAL")
	env["VLLM_LOGGING_LEVEL"] = "warn"
	cli, _, err = config.Parse([]string{"serve"}, config.Options{Getenv: getenv})
	require.NoError(t, err)
	require.Equal(t, "WARNING", cli.Serve.Env.LogLevel)
	cli, _, err = config.Parse([]string{"serve", "--api-key", "flag"}, config.Options{Getenv: getenv})
	require.NoError(t, err)
	require.Equal(t, []string{"flag"}, cli.Serve.APIKeys())

	for name := range env {
		bad := func(n string) string {
			if n == name {
				return "x"
			}
			return ""
		}
		_, _, err := config.Parse([]string{"serve"}, config.Options{Getenv: bad})
		if name == "VLLM_API_KEY" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, name)
	}
}

func TestHelp(t *testing.T) {
	for _, tt := range []struct {
		line          string
		want, without string
	}{
		{"--help", "Commands:", "--concurrency"},
		{"serve --help", "--[no-]enable-per-request-metrics", "--swap-space"},
		{"serve -h", "Scheduler and cache", "--swap-space"},
		{"serve --help=all", "--swap-space", "Commands:"},
		{"serve --help=scheduler", "--max-num-seqs N", "--port"},
		{"serve --help=max_num_seqs", "Most sequences per step; 256 if absent.", "--port"},
		{"serve --help=--no-enable-prefix-caching", "--[no-]enable-prefix-caching", "--port"},
		{"serve --help=swap-space", "accepted and ignored", "--port"},
		{"serve --help=enable-lora", "is refused", "--port"},
		{"bench --help", "troupe bench COMMAND --help explains a command.", "--help=FLAG"},
		{"bench serve --help", "--concurrency N", "VLLM_API_KEY"},
		{"chat --help", "--system", "--port"},
		{"serve --no-such-flag --help", "Usage: troupe serve", "unknown"},
	} {
		var out bytes.Buffer
		_, command, err := config.Parse(strings.Fields(tt.line), config.Options{Getenv: noEnv, Help: &out})
		require.NoError(t, err, tt.line)
		require.Equal(t, config.CommandHelp, command)
		require.Contains(t, out.String(), tt.want, tt.line)
		require.NotContains(t, out.String(), tt.without, tt.line)
	}
	for _, line := range []string{"--version", "serve --version", "version"} {
		_, command, err := parse(strings.Fields(line)...)
		require.NoError(t, err)
		require.Equal(t, config.CommandVersion, command)
	}
}

// FuzzParse checks that no argument list or config file panics and that what is
// wrong is a UsageError.
func FuzzParse(f *testing.F) {
	f.Add("serve\x00--port\x001\x00--speculative-config.a.b\x002", "port: 1")
	f.Add("serve\x00-O3\x00--api-key\x00a\x00b\x00--\x00x", "a: &a [*a]")
	f.Add("serve\x00--speculative-config\x00null\x00--speculative-config.a\x001", "")
	f.Add("bench\x00serve\x00--json\x00-", "override-generation-config: {a: {b: [1]}}")
	f.Fuzz(func(t *testing.T, line, file string) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		for _, args := range [][]string{strings.Split(line, "\x00"), {"serve", "--config", path}} {
			cli, command, err := parse(args...)
			var usage *config.UsageError
			require.True(t, err == nil || errors.As(err, &usage), "%v", err)
			if err == nil && command == config.CommandServe {
				_ = cli.Serve.Check()
			}
		}
	})
}
