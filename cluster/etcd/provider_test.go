//go:build etcd && !noetcd

package etcd_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/etcd"
)

// server is a real etcd-server on free ports, which can be started again over the
// same data.
type server struct {
	t            *testing.T
	dir          string
	client, peer string // URLs
	cmd          *exec.Cmd
}

func startServer(t *testing.T) *server {
	free := func() string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		return "http://" + ln.Addr().String()
	}
	s := &server{t: t, dir: t.TempDir(), client: free(), peer: free()}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.cmd = exec.Command("etcd", "--data-dir", s.dir, "--listen-client-urls", s.client, "--advertise-client-urls", s.client,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", "default="+s.peer)
	s.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	require.NoError(s.t, s.cmd.Start())
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// node is a node whose members are looked at.
type node struct {
	*cluster.Node
	mu      sync.Mutex
	members []cluster.Member
}

func startNode(t *testing.T, s *server) *node {
	security, err := cluster.SecretSecurity([]byte(strings.Repeat("s", cluster.MinSecretBytes)))
	require.NoError(t, err)
	n := &node{}
	n.Node, err = cluster.NewNode(cluster.Options{
		Cluster: "c", Advertise: "127.0.0.1:0", Security: security,
		Provider: &etcd.Provider{Endpoints: []string{s.client}, Warn: func(err error) { t.Log(err) }},
	})
	require.NoError(t, err)
	require.NoError(t, n.Listen())
	t.Cleanup(n.Close)
	n.Announce(1, nil, func(m []cluster.Member) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.members = m
	})
	return n
}

// await waits until exactly those others are known.
func (n *node) await(t *testing.T, others ...*node) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		known := map[uint64]bool{}
		for _, m := range n.members {
			known[m.Incarnation] = true
		}
		for _, o := range others {
			if !known[o.Self().Incarnation] {
				return false
			}
		}
		return len(known) == len(others)
	}, 40*time.Second, 10*time.Millisecond)
}

func TestMembersInEtcd(t *testing.T) {
	s := startServer(t)
	a, b := startNode(t, s), startNode(t, s)
	a.await(t, b)
	b.await(t, a)
	require.Equal(t, b.Self(), a.Members()[0])

	b.Drain()
	require.Eventually(t, func() bool { return a.Members()[0].Draining }, 20*time.Second, 10*time.Millisecond)

	s.stop() // the members stay what they were, and a node that comes later is found
	c := startNode(t, s)
	s.start()
	a.await(t, b, c)
	c.await(t, a, b)
	b.Close()
	a.await(t, c)
	c.await(t, a)
}
