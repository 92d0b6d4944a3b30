package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/logline"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/recordlog"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/mcp"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/scheduler"
)

// server is a model that is served: device, engine and HTTP joined together.
type server struct {
	cfg *config.Serve
	log *slog.Logger

	registry *prometheus.Registry
	devices  []*served    // of the batchers: each has one, or all share one
	model    *model.Model // the first
	noGPU    error        // why --device auto found none
	engine   *actors.Engine
	http     *http.Server
	keys     []http.Key
	tls      *tls.Config    // nil = plain HTTP
	records  *recordlog.Log // nil without --request-log
	tools    *mcp.Toolbox   // nil without --tool-server
	node     *cluster.Node  // nil without --cluster
	isDown   bool           // http has been shut down
	isReady  atomic.Bool    // the first runners are open
	closers  []func() error // of what is open, in the order of opening
}

// newServer loads and joins everything but opens no port. Close ends it. The end of ctx
// gives up the wait for tool servers.
func newServer(ctx context.Context, cfg *config.Serve, m *Main) (_ *server, err error) {
	s := &server{cfg: cfg, log: logline.New(m.Stderr, logline.ParseLevel(cfg.Env.LogLevel)), registry: metrics.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openFrontDoor(); err != nil {
		return nil, err
	}
	if err := s.openTools(ctx); err != nil {
		return nil, err
	}
	p, err := loadParts(cfg, s.log)
	if err != nil {
		return nil, err
	}
	if err := s.openModel(p, m); err != nil {
		return nil, err
	}
	info, err := modelInfo(cfg, p, s.model)
	if err != nil {
		return nil, err
	}
	if err := s.openCluster(p, &info); err != nil {
		return nil, err
	}
	if err := s.startEngine(p, info); err != nil {
		return nil, err
	}
	return s, s.makeHTTP(m)
}

// startEngine starts the actors and the periodic log line.
func (s *server) startEngine(p *parts, info infer.ModelInfo) (err error) {
	cfg := s.cfg
	policy, err := scheduler.ParsePolicy(cfg.Scheduler.SchedulingPolicy)
	if err != nil {
		return err
	}
	var series []*metrics.Engine
	if !cfg.Metrics.DisableLogStats {
		series = metrics.NewEngines(s.registry, metrics.EngineOptions{
			ModelName: info.ServedNames[0], MaxModelLen: info.MaxModelLen, CacheInfo: s.cacheInfo(),
			NumSpecTokens: s.model.Spec().NumSpecTokens,
		}, cfg.Scheduler.DataParallelSize)
	}
	s.engine, err = actors.NewEngine(actors.Config{
		Tokenizer: p.tokenizer, Template: p.template, TemplateErr: p.templateErr, TemplateOptions: p.chatOptions,
		TrustRequestChatTemplate: cfg.Chat.TrustRequestChatTemplate, DefaultChatTemplateKwargs: cfg.Chat.DefaultChatTemplateKwargs.Raw,
		ToolCallParser: cfg.ToolCallParser(), ReasoningParser: cfg.Chat.ReasoningParser,
		NewRunner: s.newRunner, DataParallelSize: cfg.Scheduler.DataParallelSize,
		StepTimeout: seconds(cfg.Scheduler.StepTimeout), RecoveryTimeout: seconds(cfg.Scheduler.RecoveryTimeout), FaultInjection: cfg.HTTP.EnableFaultInjection,
		Scheduler: scheduler.Config{
			MaxNumSeqs: cfg.MaxNumSeqs(), MaxNumBatchedTokens: cfg.MaxNumBatchedTokens(info.MaxModelLen), MaxModelLen: info.MaxModelLen,
			EnableChunkedPrefill: cfg.Scheduler.EnableChunkedPrefill, EnablePrefixCaching: cfg.Scheduler.EnablePrefixCaching,
			Policy: policy, LongPrefillTokenThreshold: int(cfg.Scheduler.LongPrefillTokenThreshold),
			ITLTarget: int64(cfg.Scheduler.ITLTargetMs * 1e6),
		},
		Model: info, EOSTokenIDs: eosTokenIDs(s.model, p.tokenizer),
		Metrics: series, PerRequestMetrics: s.wantsTimes(), PerChoiceMetrics: cfg.Metrics.EnablePerChoiceMetrics,
		MetricsBreakdown: cfg.Metrics.EnableMetricsBreakdown, SpecLevel: s.specLevel(), Logger: s.log,
		Seed: uint64(cfg.Model.Seed), MaxLogprobs: cfg.Model.MaxLogprobs, StreamInterval: cfg.Scheduler.StreamInterval,
		Cluster:       s.node,
		MaxQueuedReqs: optional(cfg.HTTP.MaxNumQueuedReqs), MaxQueuedTokens: optional(cfg.HTTP.MaxNumQueuedTokens),
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.engine.Close)
	s.isReady.Store(true)
	for i, engine := range series {
		stats := metrics.StartStatsLogger(metrics.StatsLoggerOptions{
			Engine: engine, EngineIndex: i, Interval: cfg.Env.LogStatsInterval, Log: func(line string) { s.log.Info(line) },
		})
		s.closers = append(s.closers, func() error { stats.Stop(); return nil })
	}
	return nil
}

// optional is 0 for a flag that was not given.
func optional(n *config.HumanInt) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// cacheInfo becomes the labels of vllm:cache_config_info, written as Python would.
func (s *server) cacheInfo() map[string]string {
	kv := s.model.KVSpec()
	python := map[bool]string{true: "True", false: "False"}
	return map[string]string{
		"block_size": fmt.Sprint(kv.BlockSize), "num_gpu_blocks": fmt.Sprint(kv.NumBlocks), "cache_dtype": kv.DType.String(),
		"enable_prefix_caching": python[s.cfg.Scheduler.EnablePrefixCaching], "gpu_memory_utilization": s.cfg.GPUMemoryUtilization(),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// describe logs what is served, in a few lines.
func (s *server) describe() {
	spec, kv := s.model.Spec(), s.model.KVSpec()
	if s.noGPU != nil {
		s.log.Info("No GPU is used: " + s.noGPU.Error())
	}
	s.log.Info(fmt.Sprintf("Model %s: %s parameters, %s, on %s", s.engine.Model().Root, shortCount(s.model.NumParameters()), spec.DType, spec.Device))
	if q := s.cfg.Model.Quantization; q != "none" && q != "" && !s.model.Quantized() {
		s.log.Warn(fmt.Sprintf("--quantization %s changed nothing: the model's weights are quantised already, or their rows are no multiple of 32", q))
	}
	if s.cfg.Cluster.Role == config.RoleFront {
		s.log.Info("No devices: those of other nodes run everything")
		return
	}
	for _, other := range s.devices[1:] {
		s.log.Info("The same on " + other.model.Spec().Device + ", with a batcher of its own")
	}
	if n := s.cfg.Scheduler.DataParallelSize; n > 1 && len(s.devices) == 1 {
		s.log.Info(fmt.Sprintf("%d batchers, each with threads, KV cache and limits of its own over the same weights, that take over from each other", n))
	}
	s.log.Info(fmt.Sprintf("KV cache: %d blocks of %d tokens = %d tokens, %s %s; context %d tokens, at most %d sequences and %d tokens per step",
		spec.NumBlocks, spec.BlockSize, spec.NumBlocks*spec.BlockSize, byteSize(kv.Bytes()), kv.DType, spec.MaxModelLen,
		s.cfg.MaxNumSeqs(), s.cfg.MaxNumBatchedTokens(spec.MaxModelLen)))
}

// shortCount writes a count of parameters: 2.8 M.
func shortCount(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}

// start accepts connections from ln. The channel tells when that has ended.
func (s *server) start(ln net.Listener) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(ln) }()
	return ended
}

// flushTime is what finished responses get to reach their clients.
const flushTime = 5 * time.Second

// hastyFlushTime is the same where nothing is to be waited for (--shutdown-timeout 0).
const hastyFlushTime = 500 * time.Millisecond

// drain lets running requests end for up to timeout while new ones are refused
// with a 503, then cancels them, and closes all connections. What it had to cut
// short is told in the log, not as an error.
func (s *server) drain(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.http.EndCalls()
	if err := s.engine.Drain(ctx); err != nil {
		s.log.Warn(fmt.Sprintf("Requests were cancelled at the end of --shutdown-timeout (%v)", timeout))
	}
	flush := flushTime
	if timeout == 0 {
		flush = hastyFlushTime
	}
	if err := s.shutDownWithin(flush); err != nil {
		s.log.Warn("Connections were closed before their clients had read everything")
	}
}

// shutDown closes the listener and all connections; only the first call does.
func (s *server) shutDown() error { return s.shutDownWithin(flushTime) }

func (s *server) shutDownWithin(flush time.Duration) error {
	if s.isDown {
		return nil
	}
	s.isDown = true
	ctx, cancel := context.WithTimeout(context.Background(), flush)
	defer cancel()
	return s.http.Shutdown(ctx)
}

// Close frees everything, in reverse order of opening. The weights stay as long
// as a runner that was left to its step may read them.
func (s *server) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		err := s.closers[i]()
		if errors.Is(err, actors.ErrDeviceAbandoned) {
			s.log.Warn("A step did not end: what it uses is left to the end of the process")
			continue
		}
		errs = append(errs, err)
	}
	s.closers = nil
	return errors.Join(errs...)
}
