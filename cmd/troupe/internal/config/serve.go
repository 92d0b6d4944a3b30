package config

// Serve is the settings of `troupe serve`: vLLM's flags with vLLM's meaning and
// default. A nil pointer stands for vLLM's null: decided from model or hardware.
type Serve struct {
	Positional string `arg:"" optional:"" name:"MODEL" help:"Model folder, GGUF file, or ORG/NAME[:REVISION] (ORG/NAME:Q8_0 for GGUF files) of a hub; the embedded model if absent."`
	ConfigFile string `name:"config" placeholder:"FILE" help:"YAML file with flags as keys; the command line wins." group:"model"`

	Metrics   MetricsFlags   `embed:"" group:"metrics"`
	HTTP      HTTPFlags      `embed:"" group:"http"`
	Logging   LoggingFlags   `embed:"" group:"logging"`
	Chat      ChatFlags      `embed:"" group:"chat"`
	Model     ModelFlags     `embed:"" group:"model"`
	Scheduler SchedulerFlags `embed:"" group:"scheduler"`
	Cluster   ClusterFlags   `embed:"" group:"cluster"`

	// Warnings are lines about flags that were accepted and ignored.
	Warnings []string `kong:"-"`
	// Fetched has where models of a hub are on disk, by the names that the flags give.
	Fetched map[string]string `kong:"-"`
	// Env is what the environment adds to the flags.
	Env Env `kong:"-"`

	memoryShare string // --gpu-memory-utilization, "" = not given
	refused     error  // flags that ask for what we cannot do, joined
}

// MetricsFlags are about what is measured and reported.
type MetricsFlags struct {
	EnablePerRequestMetrics     bool     `negatable:"" help:"Put a metrics object with the request's own timings into responses."`
	EnablePerChoiceMetrics      bool     `negatable:"" help:"The same for each choice where a request has several; needs --enable-per-request-metrics."`
	EnableMetricsBreakdown      bool     `negatable:"" help:"Say in the metrics object where the wall time of the request went; needs --enable-per-request-metrics."`
	MetricsSpelling             []string `sep:"," default:"vllm" placeholder:"NAMES" help:"Whose words a request's times are written in: vllm (metrics), llama-server (timings), groq (in usage); needs --enable-per-request-metrics."`
	EnablePerTurnMetrics        bool     `negatable:"" help:"Put metrics_per_turn into responses of /v1/responses: the timings of each generation, and the time of its tools apart."`
	PerRequestSpecDecodeMetrics string   `enum:"none,summary,detailed" default:"none" help:"Report speculative decoding per request; needs --speculative-config."`
	DisableLogStats             bool     `negatable:"" help:"No engine statistics: no vllm:* series and no periodic log line."`
	EnableForceIncludeUsage     bool     `negatable:"" help:"Usage on every chunk and a usage chunk at the end, whatever the client asks."`
	EnablePromptTokensDetails   bool     `negatable:"" help:"Report cached tokens in usage."`
	EnableServerLoadTracking    bool     `negatable:"" help:"Let /load count requests in flight."`
}

// HTTPFlags are about the listener and what is around a request.
type HTTPFlags struct {
	Host                         string    `help:"Address to listen on; all interfaces if absent."`
	Port                         int       `default:"8000" help:"Port to listen on; 0 takes a free one."`
	UDS                          string    `name:"uds" placeholder:"PATH" help:"Unix socket to listen on instead of host and port."`
	APIKey                       []string  `name:"api-key" sep:"none" placeholder:"KEY" help:"Bearer keys that clients must send one of; or VLLM_API_KEY."`
	APIKeysFile                  string    `name:"api-keys-file" placeholder:"FILE" help:"YAML file of keys with names, rate limits and weights; beside --api-key."`
	AdminAPIKey                  string    `name:"admin-api-key" placeholder:"KEY" help:"Key that may list and cancel everybody's requests."`
	EnableFaultInjection         bool      `negatable:"" help:"Add POST /debug/fault, which makes a batcher fail; for tests and demonstrations."`
	EnableResponseStore          bool      `negatable:"" help:"Keep responses of /v1/responses in memory for a day, unless a request says store: false; or VLLM_ENABLE_RESPONSES_API_STORE=1."`
	ServedModelName              []string  `sep:"none" placeholder:"NAME" help:"Names to answer to; the first is echoed and labels the metrics. The model's name if absent."`
	EnableRequestIDHeaders       bool      `name:"enable-request-id-headers" negatable:"" help:"X-Request-Id on every response."`
	SSLKeyfile                   string    `name:"ssl-keyfile" placeholder:"FILE" help:"PEM file of the TLS key; in --ssl-certfile if absent."`
	SSLCertfile                  string    `name:"ssl-certfile" placeholder:"FILE" help:"PEM file of the TLS certificate and its chain; no TLS if absent."`
	SSLCACerts                   string    `name:"ssl-ca-certs" placeholder:"FILE" help:"PEM file of those who sign clients' certificates."`
	SSLCertReqs                  int       `name:"ssl-cert-reqs" default:"0" help:"Clients' certificates: 0 = not asked for, 1 = checked if given, 2 = required."`
	SSLCiphers                   string    `name:"ssl-ciphers" placeholder:"NAMES" help:"Ciphers of TLS 1.2, separated by colons; Go's choice if absent."`
	EnableSSLRefresh             bool      `name:"enable-ssl-refresh" negatable:"" help:"Take TLS files into use when they change."`
	RootPath                     string    `help:"Path prefix that a proxy in front adds."`
	AllowedOrigins               JSONList  `default:"[\"*\"]" placeholder:"JSON" help:"Origins that browsers may call from."`
	AllowedMethods               JSONList  `default:"[\"*\"]" placeholder:"JSON" help:"Methods that browsers may use."`
	AllowedHeaders               JSONList  `default:"[\"*\"]" placeholder:"JSON" help:"Headers that browsers may send."`
	AllowCredentials             bool      `negatable:"" help:"Let browsers send credentials."`
	UvicornLogLevel              string    `enum:"critical,error,warning,info,debug,trace" default:"info" help:"Level of the server's log."`
	DisableUvicornAccessLog      bool      `negatable:"" help:"No line per HTTP request. Successful polls of /health, /ping, /metrics, /load and /v1/requests have one at level debug only."`
	DisableAccessLogForEndpoints []string  `name:"disable-access-log-for-endpoints" sep:"," placeholder:"PATHS" help:"Comma-separated paths without a line per request."`
	SSEKeepAliveInterval         float64   `name:"sse-keep-alive-interval" default:"0" help:"Seconds of silence after which a stream gets a comment line; 0 = never."`
	ShutdownTimeout              float64   `default:"0" help:"Seconds that running requests get to finish after SIGTERM or Ctrl-C; 0 = they are cancelled."`
	MaxRequestBodyBytes          HumanInt  `default:"64M" help:"Largest body of a request (64M = 64 MiB); beyond: 413. All bodies that are being read may hold four times that."`
	MaxRequestHeaderBytes        HumanInt  `default:"32K" help:"Most bytes of a request's first line and headers, held by each connection; beyond: 431."`
	MaxResponseBodyBytes         HumanInt  `default:"128M" help:"Most memory of an answer that is not streamed; beyond: 400. All of them may hold four times that."`
	MaxConnections               *HumanInt `help:"Open connections beyond which new ones get a 503 and are closed; seven eighths of the limit of open files, at most 16384, if absent."`
	MaxNumQueuedReqs             *HumanInt `help:"Waiting requests beyond which new ones get a 503; no limit if absent."`
	MaxNumQueuedTokens           *HumanInt `help:"Waiting prompt tokens beyond which new requests get a 503; no limit if absent."`
}

// LoggingFlags are about what the log says of requests.
type LoggingFlags struct {
	EnableLogRequests bool   `negatable:"" help:"Log each request: id, prompt, parameters."`
	MaxLogLen         *int   `help:"Most bytes of a prompt or output in the log; no limit if absent."`
	EnableLogOutputs  bool   `negatable:"" help:"Log each output; needs --enable-log-requests."`
	EnableLogDeltas   bool   `negatable:"" default:"true" help:"With --enable-log-outputs, log every piece of a stream too."`
	RequestLog        string `placeholder:"FILE" help:"File to append a line of JSON to about each request when it is over: times, tokens, outcome, none of its text."`
}

// ChatFlags are about conversations.
type ChatFlags struct {
	ChatTemplate              string     `placeholder:"FILE|JINJA" help:"Chat template: a file or the template itself. The model's own if absent."`
	ChatTemplateContentFormat string     `enum:"auto,string,openai" default:"auto" help:"How message content is given to the template."`
	TrustRequestChatTemplate  bool       `negatable:"" help:"Let requests bring their own template."`
	DefaultChatTemplateKwargs JSONObject `placeholder:"JSON" help:"Template arguments that requests may override."`
	ResponseRole              string     `default:"assistant" help:"Role of generated messages."`
	EnableAutoToolChoice      bool       `negatable:"" help:"Let the model choose tools; needs --tool-call-parser, but for the built-in model."`
	ToolCallParser            string     `help:"How the model writes tool calls: ${tool_call_parsers}."`
	ExcludeToolsWhenNone      bool       `name:"exclude-tools-when-tool-choice-none" negatable:"" help:"Do not show the model tools that it must not call."`
	ReasoningParser           string     `help:"How the model marks its thoughts, which are then told apart from answers: ${reasoning_parsers}."`
	ToolServer                []string   `name:"tool-server" sep:"," placeholder:"[LABEL=]URL" help:"Comma-separated MCP servers (streamable HTTP) whose tools requests to /v1/responses may have called. HOST:PORT stands for http://HOST:PORT/mcp; the label is the server's own name if absent."`
	ToolCallTimeout           float64    `default:"60" help:"Seconds that a call of a tool server may take."`
	MaxToolTurns              int        `default:"16" help:"Most generations of a response that calls tools of tool servers."`
	ReturnTokensAsTokenIDs    bool       `name:"return-tokens-as-token-ids" negatable:"" help:"Write tokens of logprobs as token_id:N."`
}

// ModelFlags are about what is loaded and how it samples.
type ModelFlags struct {
	Model                    string         `help:"The same as MODEL."`
	Tokenizer                string         `placeholder:"FOLDER" help:"Folder to take the tokenizer from, or ORG/NAME; the model's if absent."`
	Hub                      HubFlags       `embed:""`
	MaxModelLen              *ContextLength `help:"Context length in tokens (32k = 32000, 32K = 32768); -1 or auto = the largest that fits."`
	DType                    string         `name:"dtype" enum:"auto,half,float16,bfloat16,float,float32" default:"auto" help:"Element type of weights."`
	Quantization             string         `enum:"none,q8_0,q4_0" default:"none" help:"What weights of 16 or 32 bits are quantised to at load."`
	WeightsCache             string         `placeholder:"FOLDER" help:"Keep weights in this folder in the form that they have in memory: the next start maps them, and servers of the same model share them."`
	Seed                     int64          `default:"0" help:"Seed of everything random that has no seed of its own."`
	MaxLogprobs              int            `default:"20" help:"Most alternatives per token that a request may ask for; -1 = no cap."`
	GenerationConfig         string         `default:"auto" placeholder:"auto|vllm|FOLDER" help:"Where default sampling values come from."`
	OverrideGenerationConfig JSONObject     `default:"{}" placeholder:"JSON" help:"Default sampling values over those of the model."`
	SpeculativeConfig        JSONObject     `placeholder:"JSON" help:"Speculative decoding: method (ngram, draft_model), model, num_speculative_tokens, prompt_lookup_min, prompt_lookup_max."`
	SpecMethod               string         `placeholder:"ngram|draft_model" help:"method of --speculative-config."`
	SpecModel                string         `placeholder:"FOLDER" help:"model of --speculative-config: a folder with the same tokenizer, or understudy-draft."`
	SpecTokens               *int           `placeholder:"N" help:"num_speculative_tokens of --speculative-config."`
}

// SchedulerFlags are about batching and the KV cache.
type SchedulerFlags struct {
	MaxNumSeqs                *HumanInt `help:"Most sequences per step; 256 if absent."`
	MaxNumBatchedTokens       *HumanInt `help:"Most tokens per step; 2048 if absent."`
	EnableChunkedPrefill      bool      `negatable:"" default:"true" help:"Split long prompts over several steps."`
	EnablePrefixCaching       bool      `negatable:"" default:"true" help:"Reuse the KV blocks of prompts that begin alike."`
	SchedulingPolicy          string    `enum:"fcfs,priority" default:"fcfs" help:"Order of waiting requests."`
	Device                    string    `default:"auto" help:"What computes: auto (a GPU if there is one), cpu, cuda or cuda:i,j (these GPUs, with a batcher each), ptxsim (a simulated GPU, for tests)."`
	DataParallelSize          int       `name:"data-parallel-size" default:"1" help:"Batchers that share the cores and the weights, each with a KV cache and limits of its own; one takes over from another that fails."`
	StepTimeout               float64   `default:"0" help:"Seconds after which a step counts as failed; 0 = never."`
	RecoveryTimeout           float64   `default:"30" help:"Seconds that requests wait for a batcher after a failure before they fail too."`
	StreamInterval            int       `default:"1" help:"Tokens per streamed chunk."`
	LongPrefillTokenThreshold HumanInt  `name:"long-prefill-token-threshold" default:"0" help:"Most tokens of one prompt per step; 0 = no cap."`
	ITLTargetMs               float64   `name:"itl-target-ms" default:"0" help:"Milliseconds that a step may take while sequences decode: prompts get as many tokens of it as fit, by what steps took so far; 0 = no target."`
	BlockSize                 *int      `help:"Tokens per KV block; 16 if absent."`
	KVCacheMemoryBytes        *HumanInt `name:"kv-cache-memory-bytes" help:"Memory of the KV cache in bytes (4G = 4 GiB); a quarter of what is free, at most 4 GiB, if absent."`
	KVCacheDType              string    `name:"kv-cache-dtype" enum:"auto,float16,bfloat16,float32,int8" default:"auto" help:"Element type of keys and values; auto is float32 for a model of float32, else float16. int8 takes about half of float16: an integer per element, and a scale per position and head."`
	KVCachePrefault           bool      `name:"kv-cache-prefault" negatable:"" help:"Take all memory of the KV cache at start: no step waits for the system to hand out pages, and the process is that large from the start."`
	NumGPUBlocksOverride      *HumanInt `name:"num-gpu-blocks-override" help:"Number of KV blocks, whatever the memory says."`
}
