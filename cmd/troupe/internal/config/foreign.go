package config

import (
	"fmt"
	"slices"
	"strings"
)

// arity says what follows a flag.
type arity uint8

const (
	takesNothing arity = iota // a switch, with a --no- twin
	takesValue
	takesList // values up to the next flag
)

// foreign is a flag of vLLM that changes nothing here.
type foreign struct {
	name   string
	arity  arity
	accept []string // values that ask for what happens anyway: no word about them
	enum   []string // all values that vLLM knows, if those are a fixed set
	refuse bool     // other values are an error; else they are ignored with a warning
	note   string   // why
}

const (
	notePython    = "this server has no Python parts"
	noteOneDevice = "a model is on one device here; --data-parallel-size runs several"
	noteNoKernel  = "kernels are chosen by the CPU found"
	noteRemoved   = "vLLM no longer has it either"
	noteStats     = "these statistics are not collected"
	noteLater     = "this version does not have it"
	noteText      = "only text models are served"
)

// vLLM's share of the device's memory; on the CPU it is only shown.
const (
	flagMemoryShare    = "gpu-memory-utilization"
	defaultMemoryShare = "0.92"
)

// The values that vLLM knows of flags that have a fixed set.
var (
	logprobsModes = []string{"raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"}
	runners       = []string{"auto", "generate", "pooling", "draft"}
	conversions   = []string{"auto", "none", "embed", "classify", "reward"}
	loadFormats   = []string{
		"auto", "pt", "safetensors", "npcache", "dummy", "tensorizer", "runai_streamer", "runai_streamer_sharded",
		"bitsandbytes", "sharded_state", "gguf", "mistral", "fastsafetensors",
	}
)

// foreignFlags is the table of such flags; every other name is unknown.
var foreignFlags = []foreign{
	{name: "enable-per-request-output-token-metrics", refuse: true, note: noteLater},
	{name: "show-hidden-metrics-for-version", arity: takesValue, note: noteStats},
	{name: "kv-cache-metrics", note: noteStats},
	{name: "kv-cache-metrics-sample", arity: takesValue, note: noteStats},
	{name: "otlp-traces-endpoint", arity: takesValue, note: "no traces are written"},
	{name: "collect-detailed-traces", arity: takesList, note: "no traces are written"},
	{name: "enable-mfu-metrics", note: noteStats},
	{name: "cudagraph-metrics", note: noteStats},
	{name: "aggregate-engine-logging", note: noteStats},

	{name: "disable-fastapi-docs", note: notePython},
	{name: "enable-offline-docs", note: notePython},
	{name: "middleware", arity: takesList, note: notePython},
	{name: "h11-max-incomplete-event-size", arity: takesValue, note: "use --max-request-header-bytes and --max-request-body-bytes"},
	{name: "h11-max-header-count", arity: takesValue, note: "use --max-request-header-bytes"},
	{name: "api-server-count", arity: takesValue, accept: []string{"1"}, note: "one process serves all connections"},

	{name: "log-error-stack", note: "causes of internal errors are always logged"},
	{name: "log-config-file", arity: takesValue, note: notePython},

	{name: "tool-parser-plugin", arity: takesValue, accept: []string{""}, note: notePython},
	{name: "tool-strict-level", arity: takesValue, note: "forced calls always keep to their schema, others never have to"},
	{name: "enable-tokenizer-info-endpoint", refuse: true, note: noteLater},
	{name: "fingerprint-mode", arity: takesValue, accept: []string{"full"}, note: "system_fingerprint is the server's version"},
	{name: "fingerprint-value", arity: takesValue, note: "system_fingerprint is the server's version"},

	{name: "logprobs-mode", arity: takesValue, accept: []string{"raw_logprobs"}, enum: logprobsModes, refuse: true, note: "raw_logprobs is what there is"},
	{name: "load-format", arity: takesValue, accept: []string{"auto", "safetensors", "gguf"}, enum: loadFormats, refuse: true, note: "only safetensors and GGUF files are read"},
	{name: "tokenizer-revision", arity: takesValue, note: "give --tokenizer ORG/NAME:REVISION"},
	{name: "code-revision", arity: takesValue, note: notePython},
	{name: "hf-token", arity: takesValue, note: "set HF_TOKEN, which other processes do not see"},
	{name: "hf-config-path", arity: takesValue, note: "config.json is the model's own"},
	{name: "trust-remote-code", note: notePython},
	{name: "hf-overrides", arity: takesValue, accept: []string{"{}"}, note: "edit the folder's config.json instead"},
	{name: "config-format", arity: takesValue, accept: []string{"auto", "hf"}, note: "config.json is read"},
	{name: "tokenizer-mode", arity: takesValue, accept: []string{"auto", "hf"}, note: "tokenizer.json is read"},
	{name: "model-impl", arity: takesValue, accept: []string{"auto"}, note: "there is one implementation"},
	{name: "skip-tokenizer-init", note: "the server needs the tokenizer"},
	{name: "enforce-eager", note: "nothing is captured or compiled"},
	{name: "runner", arity: takesValue, accept: []string{"auto", "generate"}, enum: runners, refuse: true, note: "only generation is served"},
	{name: "task", arity: takesValue, accept: []string{"auto", "generate"}, refuse: true, note: "only generation is served"},
	{name: "convert", arity: takesValue, accept: []string{"auto", "none"}, enum: conversions, refuse: true, note: "only generation is served"},
	{name: "enable-prompt-embeds", note: noteLater},
	{name: "disable-sliding-window", note: "attention is over the whole context"},
	{name: "enable-sleep-mode", note: noteLater},

	{name: flagMemoryShare, arity: takesValue, accept: []string{defaultMemoryShare}, note: "the KV cache is in main memory; size it with --kv-cache-memory-bytes"},
	{name: "cpu-offload-gb", arity: takesValue, accept: []string{"0"}, note: "weights are in main memory already"},
	{name: "kv-offloading-size", arity: takesValue, note: "the KV cache is in main memory already"},
	{name: "prefix-caching-hash-algo", arity: takesValue, accept: []string{"sha256"}, note: "there is one hash"},
	{name: "watermark", arity: takesValue, accept: []string{"0"}, note: "the scheduler keeps no reserve"},
	{name: "async-scheduling", note: "scheduling never waits for a step"},
	{name: "swap-space", arity: takesValue, note: noteRemoved},
	{name: "use-v2-block-manager", note: noteRemoved},
	{name: "preemption-mode", arity: takesValue, note: noteRemoved},
	{name: "num-scheduler-steps", arity: takesValue, note: noteRemoved},
	{name: "disable-log-requests", note: "requests are logged with --enable-log-requests only"},

	{name: "structured-outputs-config", arity: takesValue, accept: []string{"{}", `{"backend":"auto"}`}, refuse: true, note: noteLater},
	{name: "enable-lora", refuse: true, note: noteLater},
	{name: "lora-modules", arity: takesList, refuse: true, note: noteLater},
	{name: "max-loras", arity: takesValue, note: "there are no LoRA adapters"},
	{name: "max-lora-rank", arity: takesValue, note: "there are no LoRA adapters"},

	{name: "tensor-parallel-size", arity: takesValue, accept: []string{"1"}, refuse: true, note: noteOneDevice},
	{name: "pipeline-parallel-size", arity: takesValue, accept: []string{"1"}, refuse: true, note: noteOneDevice},
	{name: "distributed-executor-backend", arity: takesValue, note: noteOneDevice},
	{name: "enable-expert-parallel", note: noteOneDevice},
	{name: "all2all-backend", arity: takesValue, note: noteOneDevice},
	{name: "headless", note: "this process is the API server too"},
	{name: "grpc", note: "the API is HTTP"},
	{name: "compilation-config", arity: takesValue, note: noteNoKernel},
	{name: "attention-backend", arity: takesValue, note: noteNoKernel},
	{name: "kernel-config", arity: takesValue, note: noteNoKernel},
	{name: "moe-backend", arity: takesValue, note: noteNoKernel},
	{name: "limit-mm-per-prompt", arity: takesValue, note: noteText},
	{name: "mm-processor-kwargs", arity: takesValue, note: noteText},
	{name: "allowed-local-media-path", arity: takesValue, note: noteText},
	{name: "kv-transfer-config", arity: takesValue, refuse: true, note: noteOneDevice},
	{name: "ec-transfer-config", arity: takesValue, refuse: true, note: noteOneDevice},
	{name: "kv-events-config", arity: takesValue, refuse: true, note: noteOneDevice},
}

// shortFlags are vLLM's abbreviations.
var shortFlags = map[string]string{
	"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
	"-q": "quantization", "-O": "compilation-config", "-cc": "compilation-config",
}

func findForeign(name string) (foreign, bool) {
	i := slices.IndexFunc(foreignFlags, func(f foreign) bool { return f.name == name })
	if i < 0 {
		return foreign{}, false
	}
	return foreignFlags[i], true
}

// judge says what setting f comes to: nothing, a warning, or an error. A
// *UsageError is reported at once, any other by the start-up checks.
func (f foreign) judge(s setting) (warning string, err error) {
	for _, v := range s.values {
		if f.enum != nil && !slices.Contains(f.enum, v) {
			return "", usagef("--%s must be one of %s, got %q", f.name, strings.Join(f.enum, ","), v)
		}
	}
	if s.off || f.arity != takesNothing && f.accepts(s.values) {
		return "", nil
	}
	given := "--" + f.name
	if f.arity != takesNothing {
		given += " " + strings.Join(s.values, " ")
	}
	if f.refuse {
		return "", fmt.Errorf("%s is not supported: %s", given, f.note)
	}
	return fmt.Sprintf("--%s is accepted and ignored: %s", f.name, f.note), nil
}

func (f foreign) accepts(values []string) bool {
	for _, v := range values {
		if !slices.Contains(f.accept, strings.Join(strings.Fields(v), "")) {
			return false
		}
	}
	return true
}
