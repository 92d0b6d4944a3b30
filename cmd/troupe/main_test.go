package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-llm/troupe/infer"
)

func noEnv(string) string { return "" }

// execute runs a command line to its end.
func execute(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	m := &Main{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Getenv: noEnv,
		Exit: func(code int) { t.Errorf("exit %d", code) },
	}
	code = m.Execute(context.Background(), args)
	return code, out.String(), errs.String()
}

func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		line string
		code int
		want string // in the one line on standard error
	}{
		{"version", exitOK, ""},
		{"--version", exitOK, ""},
		{"serve --help", exitOK, ""},
		{"serve --help=all", exitOK, ""},
		{"help", exitOK, ""},
		{"help serve", exitOK, ""},
		{"help serve scheduler", exitOK, ""},
		{"help bench serve", exitOK, ""},
		{"help nonsense", exitUsage, "unknown command \"nonsense\""},
		{"serve --max-request-body-bytes 1", exitFailure, "--max-request-body-bytes must be from 1024"},
		{"serve --max-request-header-bytes 64M", exitFailure, "--max-request-header-bytes must be from 4096 to 1048576"},
		{"serve --max-connections 0", exitFailure, "--max-connections must be from 1"},
		{"serve --no-such-flag", exitUsage, "unknown flag --no-such-flag"},
		{"serve --dtype int3", exitUsage, "--dtype must be one of"},
		{"serve --port many", exitUsage, "--port: expected an integer but got"},
		{`serve --override-generation-config {"top_k":1.5}`, exitFailure, "--override-generation-config: top_k must be an integer, not number 1.5"},
		{`serve --default-chat-template-kwargs [1]`, exitUsage, "must be an object, not array"},
		{"serve --per-request-spec-decode-metrics", exitUsage, "a value is missing"},
		{"serve --config /does/not/exist", exitUsage, "/does/not/exist"},
		{"serve --enable-per-request-metrics --disable-log-stats", exitFailure, "--disable-log-stats"},
		{"serve --per-request-spec-decode-metrics summary", exitFailure, "--speculative-config"},
		{"serve /a/model --enable-auto-tool-choice", exitFailure, "--tool-call-parser"},
		{"serve --enable-log-outputs", exitFailure, "--enable-log-requests"},
		{"serve --sse-keep-alive-interval -1", exitFailure, "--sse-keep-alive-interval"},
		{"serve --max-num-seqs 8 --max-num-batched-tokens 4", exitFailure, "--max-num-batched-tokens (4)"},
		{"serve --max-num-batched-tokens 512 --no-enable-chunked-prefill", exitFailure, "--max-model-len (1024)"},
		{"serve --max-model-len 1M", exitFailure, "max_position_embeddings"},
		{"serve --num-gpu-blocks-override 3", exitFailure, "--num-gpu-blocks-override"},
		{"serve -tp 2", exitFailure, "--tensor-parallel-size 2"},
		{"serve /does/not/exist", exitFailure, `"/does/not/exist" does not exist`},
		{"serve --tokenizer /does/not/exist", exitFailure, `"/does/not/exist" does not exist`},
		{"serve --chat-template /does/not/exist", exitFailure, "neither a file nor a template"},
		{"serve --ssl-certfile /does/not/exist", exitFailure, "--ssl-certfile /does/not/exist: no such file"},
		{"serve --ssl-keyfile /does/not/exist", exitFailure, "require --ssl-certfile"},
		{"serve --api-keys-file /does/not/exist", exitFailure, "--api-keys-file"},
		{"serve --uds /does/not/exist/socket --port 0", exitFailure, "cannot listen on /does/not/exist/socket"},
		{"top --url nonsense", exitFailure, "--url must be a URL"},
		{"top --interval 0", exitFailure, "--interval must be"},
		{"top --url http://127.0.0.1:1", exitFailure, "connection refused"},
		{"chat --url nonsense", exitFailure, "--url must be a URL"},
		{"chat --model /does/not/exist", exitFailure, "does not exist"},
		{"bench serve --concurrency 0", exitFailure, "--concurrency"},
		{"bench serve --url http://127.0.0.1:1", exitFailure, "connection refused"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			code, stdout, stderr := execute(t, "", strings.Fields(tt.line)...)
			require.Equal(t, tt.code, code, stderr)
			if tt.code == exitOK {
				require.Empty(t, stderr)
				require.NotEmpty(t, stdout)
				return
			}
			require.True(t, strings.HasPrefix(stderr, "Error: "), stderr)
			require.Contains(t, stderr, tt.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}

func TestMetricsConflictIsWordedAsAgreed(t *testing.T) {
	_, _, stderr := execute(t, "", "serve", "--enable-per-request-metrics", "--disable-log-stats")
	require.True(t, strings.HasPrefix(stderr, "Error: --enable-per-request-metrics requires"), stderr)
}

func TestInvalidChatTemplate(t *testing.T) {
	code, _, stderr := execute(t, "", "serve", "--chat-template", "{% for m in messages %}{{ m.content ")
	require.Equal(t, exitFailure, code, stderr)
	require.True(t, strings.HasPrefix(stderr, "Error: --chat-template is invalid: "), stderr)
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	code, _, stderr := execute(t, "", "serve", "--host", "127.0.0.1", "--port", port)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "Error: port "+port+" is in use")

	code, _, stderr = execute(t, "", "serve", "/does/not/exist", "--host", "127.0.0.1", "--port", port)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "/does/not/exist", "the folder comes first")
	code, _, stderr = execute(t, "", "serve", t.TempDir(), "--host", "127.0.0.1", "--port", port)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "there is no config.json")
}

func TestUsageWhereNoCommandIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"": "Error: a command is missing\n", "nope": "Error: unknown command \"nope\"\n", "bench": "Error: a command is missing\n",
	} {
		code, stdout, stderr := execute(t, "", strings.Fields(args)...)
		require.Equal(t, exitUsage, code)
		require.Empty(t, stdout)
		require.True(t, strings.HasPrefix(stderr, "Usage: troupe"), stderr)
		require.True(t, strings.HasSuffix(stderr, want), stderr)
	}
	_, _, stderr := execute(t, "", "chat", "--temperature", "x")
	require.Equal(t, "Error: --temperature: expected a number but got \"x\"\n", stderr)
}

// running is `troupe serve` in this process.
type running struct {
	url     string
	signals chan os.Signal
	exits   chan int // codes given to Exit
	code    chan int // of Execute
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.WriteString(line + "\n")
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var (
	urlPattern    = regexp.MustCompile(`https?://[^ ]+`)
	socketPattern = regexp.MustCompile(`unix socket [^ ]+`)
)

// start runs the command line until it says where it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{signals: make(chan os.Signal, 2), exits: make(chan int, 1), code: make(chan int, 1), log: &lockedBuffer{}}
	stderr, w := io.Pipe()
	m := &Main{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: w, Getenv: noEnv,
		Signals: r.signals, Exit: func(code int) { r.exits <- code },
	}
	go func() {
		code := m.Execute(context.Background(), args)
		_ = w.Close()
		r.code <- code
	}()
	urls := make(chan string, 1)
	go func() {
		defer close(urls)
		found := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			r.log.add(lines.Text())
			for _, pattern := range []*regexp.Regexp{urlPattern, socketPattern} {
				if u := pattern.FindString(lines.Text()); u != "" && !found {
					found = true
					urls <- u
				}
			}
		}
	}()
	r.url = <-urls
	require.NotEmpty(t, r.url, r.log.String())
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.signals <- syscall.SIGTERM
	require.Equal(t, exitOK, <-r.code, r.log.String())
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestServe(t *testing.T) {
	// fasthttp keeps these two: a clock for the Date header, and a cleaner that
	// sees the end of its pool within ten seconds.
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
	defer http.DefaultClient.CloseIdleConnections()
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--enable-per-request-metrics", "--enforce-eager",
		"--served-model-name", "a", "b", "--enable-log-requests", "--max-num-seqs", "4")
	status, _ := get(t, http.DefaultClient, r.url+"/health")
	require.Equal(t, 200, status)
	status, text := post(t, r.url+"/v1/completions", `{"model":"b","prompt":"The capital of France is","max_tokens":4,"temperature":0}`)
	require.Equal(t, 200, status, text)
	var answer struct {
		Model   string
		Choices []struct{ Text string }
		Metrics map[string]float64
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	require.Equal(t, "a", answer.Model)
	require.Contains(t, answer.Choices[0].Text, "Paris")
	require.Len(t, answer.Metrics, 5)
	_, text = get(t, http.DefaultClient, r.url+"/metrics")
	for _, series := range []string{`vllm:generation_tokens_total{engine="0",model_name="a"} 4`, "process_open_fds", "go_goroutines", "http_requests_total", `enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92"`} {
		require.Contains(t, text, series)
	}
	r.stop(t)
	for _, line := range []string{
		"Warning: --enforce-eager is accepted and ignored", "Model understudy: ", " parameters, bfloat16, on cpu",
		"KV cache: ", " blocks of 16 tokens", "context 1024 tokens", "Received request cmpl-", "The capital of France is", "Received terminated",
	} {
		require.Contains(t, r.log.String(), line)
	}
}

func TestServeWithoutStatistics(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--disable-log-stats", "--disable-uvicorn-access-log")
	status, _ := post(t, r.url+"/v1/completions", `{"prompt":"a","max_tokens":1}`)
	require.Equal(t, 200, status)
	_, text := get(t, http.DefaultClient, r.url+"/metrics")
	require.NotContains(t, text, "vllm:")
	require.Contains(t, text, "http_requests_total")
	r.stop(t)
	require.NotContains(t, r.log.String(), "/metrics")
}

func TestServeOnUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false) // as a killed server leaves it
	require.NoError(t, stale.Close())

	r := start(t, "serve", "--uds", path)
	require.Equal(t, "unix socket "+path, r.url)
	code, _, stderr := execute(t, "", "serve", "--uds", path)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "is in use")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	status, _ := get(t, &http.Client{Transport: transport}, "http://x/health")
	require.Equal(t, 200, status)
	transport.CloseIdleConnections()
	r.stop(t)
	require.NoFileExists(t, path)
}

// hold opens a stream that lasts until it is cut.
func hold(t *testing.T, url string) *bufio.Reader {
	t.Helper()
	resp, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"Count:","max_tokens":900,"ignore_eos":true,"stream":true,"temperature":0,"stream_options":{"include_usage":true}}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	_, err = r.ReadString('\n')
	require.NoError(t, err)
	return r
}

func TestSignalDrains(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--shutdown-timeout", "60")
	stream := hold(t, r.url)
	r.signals <- syscall.SIGINT
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"completion_tokens":900`, "what runs is finished")
	require.Contains(t, string(rest), "[DONE]")
	require.Equal(t, exitOK, <-r.code)
}

func TestSignalWithoutTimeoutCancels(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0")
	streams := []*bufio.Reader{hold(t, r.url), hold(t, r.url), hold(t, r.url)}
	r.signals <- syscall.SIGTERM
	cut := 0
	for _, s := range streams {
		rest, err := io.ReadAll(s)
		require.NoError(t, err)
		if !strings.Contains(string(rest), `"completion_tokens":900`) {
			require.Contains(t, string(rest), `"error"`, "the client is told")
			cut++
		}
	}
	require.Equal(t, exitOK, <-r.code)
	if cut > 0 {
		require.Contains(t, r.log.String(), "Requests were cancelled")
	}
}

func TestSignalWhileStartingEndsInPeace(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ctx, cancel := context.WithCancel(context.Background())
		signals, codes := make(chan os.Signal, 1), make(chan int, 1)
		signals <- sig
		var errs lockedBuffer
		m := &Main{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs, Getenv: noEnv, Signals: signals,
			Exit: func(code int) { codes <- code; cancel() }, // as if it ended here
		}
		code := m.Execute(ctx, []string{"serve", "--host", "127.0.0.1", "--port", "0"})
		require.Equal(t, exitOK, <-codes)
		require.Equal(t, exitOK, code, errs.String())
		require.Contains(t, errs.String(), "Received "+sig.String()+" while starting")
	}
}

func TestBenchDrawsOtherPromptsEachTime(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0")
	seeds := map[uint64]bool{}
	for _, given := range [][]string{nil, nil, {"--seed", "7"}} {
		code, stdout, stderr := execute(t, "", append([]string{"bench", "serve", "--url", r.url, "--num-requests", "1", "--output-tokens", "1", "--json", "-"}, given...)...)
		require.Equal(t, exitOK, code, stderr)
		var report bench.Report
		require.NoError(t, json.Unmarshal([]byte(stdout), &report))
		seeds[report.Seed] = true
		require.Contains(t, stderr, "--seed "+fmt.Sprint(report.Seed))
	}
	require.Len(t, seeds, 3)
	require.True(t, seeds[7])
	r.stop(t)
}

func TestBenchShowsProgressNowAndThen(t *testing.T) {
	var out bytes.Buffer
	show := showProgress(&out, 1000)
	for i := range 1001 {
		show(i, 1)
	}
	require.Equal(t, 101, strings.Count(out.String(), " of 1000 requests, 1 failed"))
}

func TestSignalEndsAtOnceWhereNothingCanBeFinished(t *testing.T) {
	signals, codes := make(chan os.Signal), make(chan int)
	m := &Main{Signals: signals, Exit: func(code int) { codes <- code }}
	stop := m.exitOnSignal()
	signals <- syscall.SIGINT
	require.Equal(t, 130, <-codes)
	stop()
	m.exitOnSignal()() // no signal: nothing happens
}

func TestChatInProcess(t *testing.T) {
	code, stdout, stderr := execute(t, "What is the capital of France?\n/exit\n", "chat", "--temperature", "0", "--max-tokens", "20")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "Paris")
	require.Empty(t, stderr)
}

func TestBenchServe(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--enable-per-request-metrics", "--disable-uvicorn-access-log")
	path := filepath.Join(t.TempDir(), "report.json")
	line := []string{"bench", "serve", "--url", r.url, "--endpoint", "completions", "--num-requests", "6", "--concurrency", "3", "--prompt-tokens", "20", "--output-tokens", "5", "--seed", "1"}
	code, stdout, stderr := execute(t, "", append(line, "--json", path)...)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "6 requests in")
	require.Regexp(t, `client minus server, ms \([1-6]\)`, stdout) // without those whose text came in one piece
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var report bench.Report
	require.NoError(t, json.Unmarshal(b, &report))
	require.Equal(t, 6, report.NumOK)
	require.Equal(t, 30, report.OutputTokens)
	require.Zero(t, report.ServerMetrics.NumInconsistent)
	require.GreaterOrEqual(t, report.ServerMetrics.TTFTDiffMs.P50, 0.0, "a client never sees a token before the server made it")

	code, stdout, _ = execute(t, "", append(line, "--json", "-")...)
	require.Equal(t, exitOK, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	code, _, stderr = execute(t, "", append(line, "--model", "nobody")...)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "HTTP 404")
	r.stop(t)
}

func TestErrorLine(t *testing.T) {
	require.Equal(t, "a b", errorLine(&infer.Error{Code: infer.CodeInvalid, Message: "a\nb", Err: io.EOF}))
	require.Contains(t, errorLine(infer.Internal(io.ErrUnexpectedEOF)), "unexpected EOF")
}
