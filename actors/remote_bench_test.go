package actors_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	nodes "github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/scheduler"
)

// pacedRunner ends a step every so often, and notes when.
type pacedRunner struct {
	testkit.NullRunner
	every time.Duration
	ended *atomic.Int64 // instant of the last step's end
}

func (r *pacedRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	time.AfterFunc(r.every, func() {
		r.ended.Store(infer.Now())
		r.NullRunner.Launch(plan, done)
	})
}

// BenchmarkRemoteTokens streams 1,000 sequences at 25 tokens a second from a device of
// this process, and from one of another node over TLS on the loopback, in the same
// process too. Wanted: at most twice the processor time per token.
func BenchmarkRemoteTokens(b *testing.B) {
	for _, isRemote := range []bool{false, true} {
		b.Run(map[bool]string{false: "local", true: "remote"}[isRemote], func(b *testing.B) {
			benchTokens(b, isRemote)
		})
	}
}

func benchTokens(b *testing.B, isRemote bool) {
	const streams, tokens, every = 1000, 50, 40 * time.Millisecond
	var ended atomic.Int64
	config := actors.Config{
		Tokenizer: testkit.Tokenizer(), Model: infer.ModelInfo{ServedNames: []string{"m"}, MaxModelLen: 4096, VocabSize: testkit.NumTokens},
		NewRunner: func(int) (infer.Runner, error) {
			return &pacedRunner{NullRunner: testkit.NullRunner{NumBlocks: 1 << 16, BlockSize: 16, MaxModelLen: 4096}, every: every, ended: &ended}, nil
		},
		Scheduler: scheduler.Config{MaxNumSeqs: streams, MaxNumBatchedTokens: 1 << 16, EnableChunkedPrefill: true},
	}
	engine := pacedEngine(b, config, isRemote)
	var before, after syscall.Rusage
	var used, generated int64
	var latencies [4]atomic.Int64 // tokens seen within 2 ms, 20 ms, 200 ms, later
	for b.Loop() {
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
		var all sync.WaitGroup
		for i := range streams {
			r := testkit.Completion(fmt.Sprint("stream ", i), tokens)
			r.Sampling.IgnoreEOS = true
			s, err := engine.Generate(context.Background(), r)
			require.NoError(b, err)
			all.Go(func() { readTimed(s, &ended, &latencies) })
		}
		all.Wait()
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
		used += after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		generated += streams * tokens
	}
	b.ReportMetric(float64(used)/float64(generated), "cpu-ns/token")
	for i, name := range []string{"within-2ms", "within-20ms", "within-200ms"} {
		b.ReportMetric(float64(latencies[i].Load())/float64(generated), name)
	}
}

func readTimed(s infer.Stream, ended *atomic.Int64, latencies *[4]atomic.Int64) {
	var events []infer.Event
	for range s.Ready() {
		events = s.Drain(events[:0])
		late := time.Duration(infer.Now() - ended.Load())
		for i := range events {
			if events[i].Final != nil {
				return
			}
			n := int64(len(events[i].Delta.TokenIDs))
			for k, limit := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
				if late <= limit {
					latencies[k].Add(n)
				}
			}
		}
	}
}

// pacedEngine returns an engine whose device is its own, or another node's.
func pacedEngine(b *testing.B, c actors.Config, isRemote bool) *actors.Engine {
	if !isRemote {
		e, err := actors.NewEngine(c)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, e.Close()) })
		return e
	}
	security, err := nodes.SecretSecurity([]byte(strings.Repeat("s", nodes.MinSecretBytes)))
	require.NoError(b, err)
	var engines []*actors.Engine
	worker := ""
	for _, role := range []nodes.Role{nodes.RoleWorker, nodes.RoleFront} {
		hosts := &nodes.Hosts{Interval: 10 * time.Millisecond}
		if worker != "" {
			hosts.Hosts = []string{worker}
		}
		n, err := nodes.NewNode(nodes.Options{Cluster: "c", Advertise: "127.0.0.1:0", Role: role, Security: security, Provider: hosts, Model: "m"})
		require.NoError(b, err)
		require.NoError(b, n.Listen())
		worker, c.Cluster = n.Self().Address, n
		e, err := actors.NewEngine(c)
		require.NoError(b, err)
		engines = append(engines, e)
		b.Cleanup(func() { require.NoError(b, e.Close()); n.Close() })
	}
	require.Eventually(b, func() bool { return engines[1].Health() == nil }, 10*time.Second, time.Millisecond)
	return engines[1]
}
