package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/infer"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"--enable-per-request-metrics", ""},
		{"--disable-log-stats", ""},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2 --cluster-secret-file f", ""},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2 --cluster-role front --cluster-certfile c --cluster-keyfile k --cluster-ca-certs a", ""},
		{"--cluster c", "--cluster requires --advertise, and --cluster-hosts or --cluster-etcd"},
		{"--cluster c --advertise a:1 --cluster-etcd http://e:2379 --cluster-secret-file f", ""},
		{"--cluster-etcd http://e:2379", "--cluster-etcd requires --cluster"},
		{"--advertise a:1", "--advertise requires --cluster"},
		{"--cluster-role front", "--cluster-role requires --cluster"},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2", "--cluster requires --cluster-secret-file, or --cluster-certfile with --cluster-keyfile and --cluster-ca-certs: nodes must prove that they belong"},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2 --cluster-secret-file f --cluster-keyfile k", "--cluster-secret-file cannot be combined with --cluster-certfile, --cluster-keyfile and --cluster-ca-certs"},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2 --cluster-keyfile k", "--cluster-certfile, --cluster-keyfile and --cluster-ca-certs require each other"},
		{"--cluster c --advertise a --cluster-hosts a:1 --cluster-secret-file f", `--advertise must be HOST:PORT with a port from 1 to 65535, got "a"`},
		{"--cluster c --advertise a:1 --cluster-hosts a:0 --cluster-secret-file f", `--cluster-hosts must be HOST:PORT with a port from 1 to 65535, got "a:0"`},
		{"--cluster c --advertise a:1 --cluster-hosts a:1,b:2 --cluster-secret-file f --cluster-role front --data-parallel-size 2", "--cluster-role front has no devices: it cannot be combined with --data-parallel-size"},
		{"--no-enable-per-request-metrics --disable-log-stats", ""},
		{"--enable-per-request-metrics --disable-log-stats", "--enable-per-request-metrics requires engine statistics: it cannot be combined with --disable-log-stats"},
		{"--enable-per-request-metrics --enable-per-choice-metrics --enable-metrics-breakdown --metrics-spelling vllm,llama-server,groq", ""},
		{"--enable-per-choice-metrics", "--enable-per-choice-metrics requires --enable-per-request-metrics"},
		{"--enable-metrics-breakdown", "--enable-metrics-breakdown requires --enable-per-request-metrics"},
		{"--no-enable-metrics-breakdown --metrics-spelling vllm", ""},
		{"--metrics-spelling groq", "--metrics-spelling requires --enable-per-request-metrics"},
		{"--enable-per-request-metrics --metrics-spelling groq", ""},
		{"--enable-per-request-metrics --metrics-spelling llama", `--metrics-spelling: invalid spelling "llama" (choose from vllm, llama-server, groq)`},
		{"--enable-per-request-metrics --enable-metrics-breakdown --metrics-spelling groq llama-server", "--enable-metrics-breakdown requires vllm in --metrics-spelling: what it adds is in that object only"},
		{`--enable-per-request-metrics --per-request-spec-decode-metrics summary --metrics-spelling groq --speculative-config {"method":"ngram"}`,
			"--per-request-spec-decode-metrics requires vllm in --metrics-spelling: what it adds is in that object only"},
		{"--per-request-spec-decode-metrics none", ""},
		{"--per-request-spec-decode-metrics summary", "--per-request-spec-decode-metrics summary requires speculative decoding: set --speculative-config"},
		{"--speculative-config {}", "--speculative-config: method is missing: ngram or draft_model"},
		{`--per-request-spec-decode-metrics detailed --disable-log-stats --speculative-config {"method":"ngram"}`, ""},
		{"--enable-auto-tool-choice /a/model", "--enable-auto-tool-choice requires --tool-call-parser"},
		{"--enable-auto-tool-choice /a/model --tool-call-parser hermes", ""},
		{"--enable-auto-tool-choice", ""}, // the built-in model's parser is known
		{"--tool-call-parser no", `--tool-call-parser: invalid tool call parser "no" (choose from deepseek_v3, `},
		{"--reasoning-parser qwen3", ""},
		{"--reasoning-parser no", `--reasoning-parser: invalid reasoning parser "no" (choose from deepseek_r1, `},
		{"--enable-per-turn-metrics --disable-log-stats", "--enable-per-turn-metrics requires engine statistics"},
		{"--enable-per-turn-metrics --tool-server localhost:1,books=https://user:secret@h/mcp?key=1 --tool-call-timeout 0.5 --max-tool-turns 1", ""},
		{"--tool-server localhost:1,ftp://h", `--tool-server: entry 2: the scheme must be http or https, got "ftp"`},
		{"--tool-server " + strings.Repeat("h:1,", 16) + "h:1", "--tool-server: at most 16 servers, got 17"},
		{"--tool-call-timeout 0", "--tool-call-timeout must be a number of seconds above 0"},
		{"--tool-call-timeout NaN", "--tool-call-timeout must be"},
		{"--max-tool-turns 0", "--max-tool-turns must be from 1 to 128, got 0"},
		{"--enable-log-outputs", "--enable-log-outputs requires --enable-log-requests"},
		{"--enable-log-outputs --enable-log-requests", ""},
		{"--max-log-len -1", "--max-log-len must be at least 0"},
		{"--sse-keep-alive-interval -1", "--sse-keep-alive-interval must be"},
		{"--sse-keep-alive-interval NaN", "--sse-keep-alive-interval must be"},
		{"--shutdown-timeout -0.5", "--shutdown-timeout must be"},
		{"--port 65536", "--port must be from 0 to 65535, got 65536"},
		{"--port -1", "--port must be"},
		{"--served-model-name=", "--served-model-name must not be empty"},
		{"--ssl-keyfile k", "require --ssl-certfile"},
		{"--ssl-ca-certs k", "require --ssl-certfile"},
		{"--ssl-certfile c --ssl-keyfile k", ""},
		{"--root-path x", "--root-path must begin with a slash"},
		{"--max-num-queued-reqs 0", "--max-num-queued-reqs must be"},
		{"--max-num-queued-tokens 0", "--max-num-queued-tokens must be"},
		{"--max-num-seqs 0", "--max-num-seqs must be"},
		{"--max-num-seqs 1g", "--max-num-seqs must be"},
		{"--kv-cache-memory-bytes 0", "--kv-cache-memory-bytes must be"},
		{"--num-gpu-blocks-override 0", "--num-gpu-blocks-override must be"},
		{"--data-parallel-size 0", "--data-parallel-size must be from 1 to 64, got 0"},
		{"--step-timeout -1", "--step-timeout must be"},
		{"--step-timeout NaN", "--step-timeout must be"},
		{"--recovery-timeout 0", "--recovery-timeout must be"},
		{"--stream-interval 0", "--stream-interval must be"},
		{"--block-size 0", "--block-size must be"},
		{"--max-num-seqs 32 --max-num-batched-tokens 16", "--max-num-batched-tokens (16) must not be below --max-num-seqs (32)"},
		{"--max-num-batched-tokens 16", ""}, // as many sequences as tokens
		{"--max-num-batched-tokens 512 --max-model-len 1024", ""},
		{"--max-num-batched-tokens 512 --max-model-len 1024 --no-enable-chunked-prefill", "--max-num-batched-tokens (512) must not be below --max-model-len (1024)"},
		{"--itl-target-ms -1", "--itl-target-ms must be from 0 to 60000, got -1"},
		{"--itl-target-ms NaN", "--itl-target-ms must be from 0 to 60000, got NaN"},
		{"--itl-target-ms 20 --no-enable-chunked-prefill", "--itl-target-ms 20 cuts prompts into chunks"},
		{"--max-num-batched-tokens 512 --no-enable-chunked-prefill", ""}, // decided by the model
		{"--max-logprobs -2", "--max-logprobs must be at least -1"},
		{"--max-model-len 0", "--max-model-len must be"},
		{"--max-model-len -2", "--max-model-len must be"},
		{"--max-model-len auto", ""},
		{"--max-model-len -1", ""},
		{`--override-generation-config {"temperature":0.5,"top_k":3}`, ""},
		{`--override-generation-config {"temperature":-1}`, "--override-generation-config: temperature must be"},
		{`--override-generation-config {"top_p":0}`, "--override-generation-config: top_p must be"},
		{`--override-generation-config {"top_k":1.5}`, "--override-generation-config: "},
		{`--override-generation-config {"do_sample":true}`, "do_sample"},
		{"a --model b", "differ"},
		{"a --model a", ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			err := parseServe(t, strings.Fields(tt.line)...).Check()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestDerivedSizes(t *testing.T) {
	s := parseServe(t)
	require.Equal(t, 2048, s.MaxNumBatchedTokens(100_000))
	require.NoError(t, s.CheckContext(100_000))
	s = parseServe(t, "--no-enable-chunked-prefill")
	require.Equal(t, 100_000, s.MaxNumBatchedTokens(100_000))
	s = parseServe(t, "--max-num-seqs", "5000")
	require.Equal(t, 5000, s.MaxNumBatchedTokens(512))
	s = parseServe(t, "--max-num-batched-tokens", "64", "--no-enable-chunked-prefill")
	require.Equal(t, 64, s.MaxNumSeqs())
	require.ErrorContains(t, s.CheckContext(512), "must not be below --max-model-len (512)")

	network, address := parseServe(t).Address()
	require.Equal(t, []string{"tcp", ":8000"}, []string{network, address})
	_, address = parseServe(t, "--host", "::1", "--port", "0").Address()
	require.Equal(t, "[::1]:0", address)
	network, address = parseServe(t, "--uds", "/tmp/s", "--host", "::1").Address()
	require.Equal(t, []string{"unix", "/tmp/s"}, []string{network, address})
}

func TestClientCommands(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"chat", ""},
		{"chat --url http://x:1 --model m --system s", ""},
		{"chat --url x:1", "--url must be a URL"},
		{"chat --max-tokens -1", "--max-tokens"},
		{"bench serve", ""},
		{"bench serve --num-requests 0", "--num-requests must be"},
		{"bench serve --concurrency 0", "--concurrency must be"},
		{"bench serve --rate -1", "--rate must be"},
		{"bench serve --rate NaN", "--rate must be"},
		{"bench serve --timeout 0", "--timeout must be"},
		{"bench serve --output-tokens 0", "--output-tokens must be"},
		{"bench serve --url ftp://x", "--url must be a URL"},
		{"bench engine", ""},
		{"bench engine a b --shape 1.1b --type q4_0,bf16 --decode 4", ""},
		{"bench engine --decode 0", "--decode must be from 1 to 4096, got 0"},
		{"bench engine --prefill 8,999999", "--prefill must be from 1 to 131072, got 999999"},
		{"bench engine --repetitions 0", "--repetitions must be"},
		{"bench engine --threads -1", "--threads must be"},
		{"bench engine a --quantization none,q4_0", ""},
		{"bench engine --shape 2b", `--shape: there is no shape "2b": the shapes are 110m`},
		{"bench engine --type q2_k", "--type: random weights cannot be of type"},
		{"bench model out.gguf", ""},
		{"doctor m.gguf --quantization q4_0", ""},
		{"doctor --read-mib 0", "--read-mib must be from 1"},
		{"bench model out.gguf --shape x", "--shape: there is no shape"},
		{"bench model out.gguf --type x", "--type: random weights"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			cli, command, err := parse(strings.Fields(tt.line)...)
			require.NoError(t, err)
			switch command {
			case config.CommandChat:
				err = cli.Chat.Check()
			case config.CommandBenchEngine:
				err = cli.Bench.Engine.Check()
			case config.CommandDoctor:
				err = cli.Doctor.Check()
			case config.CommandBenchModel:
				err = cli.Bench.Model.Check()
			default:
				err = cli.Bench.Serve.Check()
			}
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSamplingDefaults(t *testing.T) {
	s := parseServe(t, "--override-generation-config", `{"top_k":3,"max_new_tokens":9}`)
	given := infer.SamplingDefaults{Temperature: ptr(0.7), TopK: ptr(50)}
	got, err := s.SamplingDefaults(given)
	require.NoError(t, err)
	require.Equal(t, infer.SamplingDefaults{Temperature: ptr(0.7), TopK: ptr(3), MaxNewTokens: ptr(9)}, got)
	got, err = parseServe(t).SamplingDefaults(given)
	require.NoError(t, err)
	require.Equal(t, given, got)
}

func TestParserOfTheBuiltInModel(t *testing.T) {
	require.Equal(t, "hermes", parseServe(t).ToolCallParser())
	require.Equal(t, "hermes", parseServe(t, "understudy").ToolCallParser())
	require.Equal(t, "generic", parseServe(t, "--tool-call-parser", "generic").ToolCallParser())
	require.Empty(t, parseServe(t, "/a/model").ToolCallParser())
}
