package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	nodes "github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// fleet is a cluster of engines in one process, over real connections, and an engine
// alone that nothing ever happens to.
type fleet struct {
	t     *testing.T
	quiet *actors.Engine
	nodes []*fleetNode
}

type fleetNode struct {
	*actors.Engine
	node   *nodes.Node
	device *testkit.Device
	hosts  *nodes.Hosts
	once   sync.Once
}

// newFleet starts a node per role. options may change the device of each.
func newFleet(t *testing.T, options func(i int) testkit.DeviceOptions, roles ...nodes.Role) *fleet {
	t.Helper()
	f := &fleet{t: t, quiet: startEngine(t, testkit.NewDevice(testkit.DeviceOptions{NumBlocks: 64}), nil)}
	security, err := nodes.SecretSecurity([]byte(strings.Repeat("s", nodes.MinSecretBytes)))
	require.NoError(t, err)
	for _, role := range roles {
		n := &fleetNode{hosts: &nodes.Hosts{Interval: 20 * time.Millisecond}}
		n.node, err = nodes.NewNode(nodes.Options{
			Cluster: "c", Advertise: "127.0.0.1:0", Role: role, Security: security, Provider: n.hosts, Model: "m",
		})
		require.NoError(t, err)
		require.NoError(t, n.node.Listen())
		f.nodes = append(f.nodes, n)
	}
	for i, n := range f.nodes {
		for _, other := range f.nodes {
			n.hosts.Hosts = append(n.hosts.Hosts, other.node.Self().Address)
		}
		n.device = testkit.NewDevice(options(i))
		n.Engine = startEngineOf(t, n)
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.end(t)
		}
	})
	return f
}

func startEngineOf(t *testing.T, n *fleetNode) *actors.Engine {
	c := actors.Config{
		Tokenizer: testkit.Tokenizer(), NewRunner: n.device.NewRunner, Scheduler: testkit.SchedulerConfig(),
		Model: testkit.Model(), EOSTokenIDs: []int32{testkit.EOS}, PerRequestMetrics: true, MaxLogprobs: 20, Cluster: n.node,
	}
	e, err := actors.NewEngine(c)
	require.NoError(t, err)
	return e
}

// end closes a node, once, and checks that its device is left as it was.
func (n *fleetNode) end(t *testing.T) {
	n.once.Do(func() {
		require.NoError(t, n.Close())
		n.node.Close()
		require.NoError(t, n.device.Check())
	})
}

// await waits until a node has sessions on so many devices of others.
func (f *fleet) await(i, numDevices int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		serving := 0
		for _, n := range f.nodes[i].Cluster().Nodes {
			for _, d := range n.Devices {
				if !n.Self && d.State == infer.DeviceServing {
					serving++
				}
			}
		}
		return serving == numDevices
	}, 20*time.Second, time.Millisecond)
}

func plain(int) testkit.DeviceOptions { return testkit.DeviceOptions{NumBlocks: 64} }

// completions are requests of all sorts that give the same wherever they run.
func completions(n int) []*infer.Request {
	var requests []*infer.Request
	for i := range n {
		r := testkit.Completion(fmt.Sprintf("prompt %d", i), 4+i%12)
		r.SeedGiven, r.Sampling.Seed = true, uint64(i)
		switch i % 4 {
		case 1:
			r.N = 3
		case 2:
			r.Sampling.NumLogprobs, r.Sampling.NumPromptLogprobs = 2, 1
		case 3:
			r.Sampling.Temperature = 1
		case 0:
			r.Structured = &infer.StructuredOutput{Param: "structured_outputs", Choice: []string{"abracadabra", "hocus pocus"}}
		}
		requests = append(requests, r)
	}
	return requests
}

// same asserts that two answers are the same to their reader.
func same(t *testing.T, want, got *answer) {
	t.Helper()
	require.Nil(t, got.final.Err)
	require.Equal(t, want.final.Usage.NumPromptTokens, got.final.Usage.NumPromptTokens)
	require.Equal(t, want.final.Usage.NumCompletionTokens, got.final.Usage.NumCompletionTokens)
	require.Len(t, got.choices, len(want.choices))
	for i, w := range want.choices {
		g := got.choices[i]
		require.Equal(t, w.text, g.text)
		require.Equal(t, w.tokenIDs, g.tokenIDs)
		require.Equal(t, w.logprobs, g.logprobs)
		require.Equal(t, w.finish, g.finish)
		require.Equal(t, w.stop, g.stop)
	}
}

// run sends requests to a node at once and compares with the quiet run.
func (f *fleet) run(i int, requests []*infer.Request, meanwhile func()) {
	f.t.Helper()
	streams := make([]infer.Stream, len(requests))
	for j, r := range requests {
		s, err := f.nodes[i].Generate(context.Background(), r)
		require.NoError(f.t, err)
		streams[j] = s
	}
	meanwhile()
	for j, r := range requests {
		got, err := read(streams[j])
		require.NoError(f.t, err)
		same(f.t, generate(f.t, f.quiet, r), got)
	}
}

func TestRemoteDevicesServeAFront(t *testing.T) {
	f := newFleet(t, plain, nodes.RoleFront, nodes.RoleWorker, nodes.RoleWorker)
	f.await(0, 2)
	f.run(0, completions(40), func() {})
	for _, n := range f.nodes[1:] {
		require.Positive(t, n.device.NumSteps(), "both have worked")
	}
	require.Empty(t, f.nodes[0].Requests())
	answer := generate(t, f.nodes[0], testkit.Completion("times", 8))
	m := answer.final.Metrics
	require.True(t, m.TimeToFirstTokenMs.Valid && m.QueueTimeMs.Valid && m.GenerationTimeMs.Valid)
	require.True(t, m.TimeToFirstTokenMs.Value >= 0 && m.QueueTimeMs.Value >= 0 && m.GenerationTimeMs.Value >= 0)
}

// Nodes of the role both serve each other, and themselves.
func TestRemoteDevicesOfPeers(t *testing.T) {
	f := newFleet(t, plain, nodes.RoleBoth, nodes.RoleBoth)
	f.await(0, 1)
	f.await(1, 1)
	for i := range f.nodes {
		f.run(i, completions(20), func() {})
	}
}

// A worker that goes away in the middle of everything takes no token with it.
func TestRemoteWorkerGoes(t *testing.T) {
	held := make(chan struct{})
	var once sync.Once
	f := newFleet(t, func(i int) testkit.DeviceOptions {
		o := plain(i)
		if i == 1 { // its fourth step waits until it is to go
			o.Fault = func(step int, _ *infer.StepPlan) error {
				if step == 3 {
					once.Do(func() { close(held) })
					return testkit.Stall{}
				}
				return nil
			}
		}
		return o
	}, nodes.RoleFront, nodes.RoleWorker, nodes.RoleWorker)
	f.await(0, 2)
	f.run(0, completions(24), func() {
		<-held
		f.nodes[1].node.Close() // its streams end
	})
	f.nodes[1].device.Release()
	f.await(0, 1)
}

// A step that fails on a worker is lived through as one that fails here.
func TestRemoteStepFails(t *testing.T) {
	f := newFleet(t, func(i int) testkit.DeviceOptions {
		o := plain(i)
		if i == 1 {
			o.Fault = func(step int, _ *infer.StepPlan) error {
				if step%7 == 6 {
					return errors.New("scripted failure")
				}
				return nil
			}
		}
		return o
	}, nodes.RoleFront, nodes.RoleWorker)
	f.await(0, 1)
	f.run(0, completions(12), func() {})
}

// A worker that shuts down hands its sequences over, and is empty when it has.
func TestRemoteWorkerDrains(t *testing.T) {
	f := newFleet(t, plain, nodes.RoleFront, nodes.RoleWorker, nodes.RoleWorker)
	f.await(0, 2)
	f.run(0, completions(40), func() {
		require.NoError(t, f.nodes[1].Drain(context.Background()))
		f.nodes[1].end(t)
	})
	f.await(0, 1)
	require.NoError(t, f.nodes[0].Health())
}

// A front that goes away leaves nothing on the devices of others; a client that
// does, neither.
func TestRemoteFrontGoes(t *testing.T) {
	f := newFleet(t, plain, nodes.RoleFront, nodes.RoleWorker)
	f.await(0, 1)
	long := testkit.Completion("long", 100)
	long.Sampling.IgnoreEOS = true
	s, err := f.nodes[0].Generate(context.Background(), long)
	require.NoError(t, err)
	s.Cancel(infer.CancelClientGone)
	_, err = read(s)
	require.NoError(t, err)
	_, err = f.nodes[0].Generate(context.Background(), long)
	require.NoError(t, err)
	f.nodes[0].node.Close()
	f.nodes[0].end(t)
	require.NoError(t, f.nodes[1].Drain(context.Background()), "nothing is left")
}
