//go:build e2e

package e2e

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodes are processes of one cluster, on this machine.
type nodes struct {
	t         *testing.T
	secret    string
	addresses []string
}

// freeAddresses returns addresses that were free a moment ago.
func freeAddresses(t *testing.T, n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addresses[i] = ln.Addr().String()
		defer ln.Close()
	}
	return addresses
}

func newNodes(t *testing.T, n int) *nodes {
	c := &nodes{t: t, secret: filepath.Join(t.TempDir(), "secret"), addresses: freeAddresses(t, n)}
	require.NoError(t, os.WriteFile(c.secret, []byte(strings.Repeat("secret ", 8)), 0o600))
	return c
}

// serve starts node i, and waits until it is healthy: a front is when a worker is.
func (c *nodes) serve(i int, role string, args ...string) *server {
	return serve(c.t, append([]string{"--cluster", "e2e", "--advertise", c.addresses[i], "--cluster-hosts", strings.Join(c.addresses, ","),
		"--cluster-role", role, "--cluster-secret-file", c.secret, "--admin-api-key", adminKey, "--disable-uvicorn-access-log"}, args...)...)
}

// devices counts the devices of other nodes that a node can use.
func (s *server) devices() (serving int) {
	r := s.do("GET", "/v1/cluster", "", bearer(adminKey)...)
	require.Equal(s.t, http.StatusOK, r.Status, "%s", r.Body)
	for _, n := range s.parse(r.Body)["data"].([]any) {
		for _, d := range n.(obj)["devices"].([]any) {
			if !n.(obj)["self"].(bool) && d.(obj)["state"] == "serving" {
				serving++
			}
		}
	}
	return serving
}

func (s *server) awaitDevices(n int) {
	s.t.Helper()
	s.eventually(func() bool { return s.devices() == n }, "as many devices of other nodes serve")
}

// running is what runs on a node's devices.
func (s *server) running() float64 { return sum(s.scrape(), "vllm:num_requests_running") }

// TestClusterOutlivesWorkers: streams of a front live through workers that are killed, frozen and shut down,
// while others take their place, with the tokens of a quiet run.
func TestClusterOutlivesWorkers(t *testing.T) {
	const streams, tokens = 32, 700
	c := newNodes(t, 4)
	first, second := c.serve(1, "worker"), c.serve(2, "worker")
	front := c.serve(0, "front", "--enable-per-request-metrics")
	front.awaitDevices(2)
	quiet, errs := front.stories(streams, tokens)
	requireNoErrors(t, errs)
	require.Zero(t, sum(front.scrape(), "troupe:sequence_resubmissions_total"))

	runs := front.restless(streams, tokens)
	front.eventually(func() bool { return first.running()+second.running() == streams }, "all run")
	require.NoError(t, first.cmd.Process.Kill())
	front.eventually(func() bool { return second.running() == streams }, "the survivor runs all")
	requireUnderway(t, runs)
	requireLaps(t, runs, quiet, tokens)

	third := c.serve(3, "worker")
	front.awaitDevices(2)
	runs = front.restless(streams, tokens)
	front.eventually(func() bool { return second.running()+third.running() == streams && second.running() > 0 }, "both run")
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGSTOP))
	front.eventually(func() bool { return third.running() == streams }, "the other one runs all")
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGCONT))
	requireUnderway(t, runs)
	requireLaps(t, runs, quiet, tokens)
	requireIdle(t, second) // it has forgotten what it had

	front.awaitDevices(2)
	runs = front.restless(streams, tokens)
	front.eventually(func() bool { return second.running()+third.running() == streams && third.running() > 0 }, "both run again")
	require.NoError(t, third.cmd.Process.Signal(syscall.SIGTERM))
	<-third.exit
	requireUnderway(t, runs)
	requireLaps(t, runs, quiet, tokens)

	m := front.scrape()
	const laps = 1 + 3*laps
	require.EqualValues(t, laps*streams*tokens, sum(m, "vllm:generation_tokens_total"), "no token twice, none lost")
	require.EqualValues(t, laps*streams, sum(m, "vllm:request_success_total", `finished_reason="length"`))
	require.Positive(t, sum(m, "troupe:sequence_resubmissions_total"))
	requireIdle(t, front)
	requireIdle(t, second)
}

func requireLaps(t *testing.T, runs <-chan lap, quiet []*sse, tokens int) {
	t.Helper()
	for run := range runs {
		requireNoErrors(t, run.errs)
		requireSame(t, quiet, run.streams, tokens)
	}
}

// TestClusterOfPeers: every node serves what any is asked, and goes on alone.
func TestClusterOfPeers(t *testing.T) {
	const streams, tokens = 16, 300
	c := newNodes(t, 2)
	a, b := c.serve(0, "both"), c.serve(1, "both")
	a.awaitDevices(1)
	b.awaitDevices(1)
	quiet, errs := a.stories(streams, tokens)
	requireNoErrors(t, errs)
	runs := b.restless(streams, tokens)
	b.eventually(func() bool { return a.running() > 0 && b.running() > 0 }, "both run what one was asked")
	require.NoError(t, a.cmd.Process.Kill())
	requireLaps(t, runs, quiet, tokens)
	requireIdle(t, b)
}

// assigned sums what a node knows to be assigned to devices of others, by anybody and by itself.
func (s *server) assigned() (all, own int) {
	for _, n := range s.parse(s.do("GET", "/v1/cluster", "", bearer(adminKey)...).Body)["data"].([]any) {
		for _, d := range n.(obj)["devices"].([]any) {
			if own1 := d.(obj)["num_own_sequences"]; own1 != nil {
				all, own = all+int(d.(obj)["num_sequences"].(float64)), own+int(own1.(float64))
			}
		}
	}
	return all, own
}

// TestO64BurstSpreads: a burst goes to both of two idle workers in equal parts, and what is given up is counted
// nowhere.
func TestO64BurstSpreads(t *testing.T) {
	const seats, tokens, given = 4, 900, 100
	c := newNodes(t, 3)
	a, b := c.serve(1, "worker", "--max-num-seqs", "4"), c.serve(2, "worker", "--max-num-seqs", "4")
	front := c.serve(0, "front")
	front.awaitDevices(2)
	runs := front.restless(2*seats, tokens)
	front.eventually(func() bool { return a.running()+b.running() == 2*seats }, "all run")
	require.InDelta(t, seats, a.running(), 1)
	for run := range runs {
		requireNoErrors(t, run.errs)
	}
	var all sync.WaitGroup
	for i := range given {
		all.Go(func() {
			_, _ = front.tryStream(context.Background(), "/v1/chat/completions", story(i, tokens), func(n int, _ obj) bool { return n < 3 })
		})
	}
	all.Wait()
	front.eventually(func() bool { all, own := front.assigned(); return all == 0 && own == 0 }, "nothing is counted any more")
	for _, n := range []*server{front, a, b} {
		requireIdle(t, n)
	}
}

// TestO65ClusterTotals: what two fronts serve from two workers adds up over the nodes to what clients got.
func TestO65ClusterTotals(t *testing.T) {
	const requests, tokens = 100, 5
	c := newNodes(t, 4)
	all := []*server{c.serve(2, "worker"), c.serve(3, "worker"), c.serve(0, "front", "--enable-per-request-metrics"), c.serve(1, "front", "--enable-per-request-metrics")}
	fronts := all[2:]
	for _, f := range fronts {
		f.awaitDevices(2)
	}
	for i := range requests {
		f := fronts[i%len(fronts)]
		answer, _ := f.chat(obj{"model": "understudy", "messages": user("Hi"), "max_tokens": tokens, "ignore_eos": true})
		requireIdentities(t, readTimes(t, answer), tokens)
	}
	totals := func() (success, generated, prompts float64) {
		for _, n := range all {
			m := n.scrape()
			success += sum(m, "vllm:request_success_total")
			generated += sum(m, "vllm:generation_tokens_total")
			prompts += sum(m, "vllm:prompt_tokens_total")
		}
		return success, generated, prompts
	}
	success, generated, prompts := totals()
	require.EqualValues(t, requests, success)
	require.EqualValues(t, requests*tokens, generated)
	require.Positive(t, prompts)
	for range 10 {
		s, g, p := totals()
		require.Equal(t, []float64{success, generated, prompts}, []float64{s, g, p}, "nothing goes back, or on without requests")
	}
	for _, n := range all {
		requireIdle(t, n)
	}
}

// TestClusterStrangers: a node with another secret finds nobody and is counted, and garbage on the port harms
// nothing.
func TestClusterStrangers(t *testing.T) {
	c := newNodes(t, 2)
	s := c.serve(0, "both")
	other := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(other, []byte(strings.Repeat("another secret ", 4)), 0o600))
	stranger := c.serve(1, "both", "--cluster-secret-file", other)
	conn, err := net.Dial("tcp", c.addresses[0])
	require.NoError(t, err)
	_, _ = conn.Write([]byte(strings.Repeat("garbage\x00\xff", 1000)))
	require.NoError(t, conn.Close())
	for _, n := range []*server{s, stranger} {
		n.eventually(func() bool { return sum(n.scrape(), "troupe:cluster_refused_connections_total") > 1 }, "strangers are counted")
		require.Zero(t, n.devices())
		require.Zero(t, sum(n.scrape(), "troupe:cluster_other_nodes"))
	}
	alive(t, s)

	short := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	code, text := run(t, "serve", "--cluster", "e2e", "--advertise", c.addresses[0], "--cluster-hosts", c.addresses[0], "--cluster-secret-file", short)
	require.Equal(t, 1, code)
	require.Contains(t, text, "at least 32 bytes, got 5")
}
