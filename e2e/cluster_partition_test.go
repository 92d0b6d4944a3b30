//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// network is a bridge with a network namespace behind each of its ports: machines of their own, as far as
// packets go.
type network struct {
	t      *testing.T
	prefix string // of the names of devices
	subnet string // "10.213.7."
	nodes  []int  // numbers, from 2
}

// newNetwork skips the test where namespaces may not be made.
func newNetwork(t *testing.T, size int) *network {
	id := os.Getpid() % 250
	n := &network{t: t, prefix: fmt.Sprintf("te%d", id), subnet: fmt.Sprintf("10.213.%d.", id)}
	if out, err := exec.Command("ip", "netns", "add", n.prefix+"n1").CombinedOutput(); err != nil {
		t.Skipf("network namespaces cannot be made here: %v %s", err, out)
	}
	n.ip("netns del " + n.prefix + "n1")
	n.ip("link add " + n.prefix + "b type bridge")
	t.Cleanup(n.remove)
	n.ip("addr add " + n.subnet + "1/24 dev " + n.prefix + "b")
	n.ip("link set " + n.prefix + "b up")
	for i := 2; i < 2+size; i++ {
		n.nodes = append(n.nodes, i)
		space, port, inside := n.space(i), n.port(i), n.prefix+"p"+fmt.Sprint(i)
		n.ip("netns add " + space)
		n.ip("link add " + port + " type veth peer name " + inside)
		n.ip("link set " + inside + " netns " + space)
		n.ip("link set " + port + " master " + n.prefix + "b up")
		n.ip("-n " + space + " addr add " + n.address(i) + "/24 dev " + inside)
		n.ip("-n " + space + " link set " + inside + " up")
	}
	return n
}

func (n *network) space(i int) string   { return fmt.Sprint(n.prefix, "n", i) }
func (n *network) port(i int) string    { return fmt.Sprint(n.prefix, "v", i) }
func (n *network) address(i int) string { return fmt.Sprint(n.subnet, i) }

func (n *network) ip(args string) {
	n.t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	require.NoError(n.t, err, "ip %s: %s", args, out)
}

func (n *network) remove() {
	for _, i := range n.nodes {
		_ = exec.Command("ip", "netns", "del", n.space(i)).Run()
		_ = exec.Command("ip", "link", "del", n.port(i)).Run() // gone with its space as a rule
	}
	_ = exec.Command("ip", "link", "del", n.prefix+"b").Run()
}

// cut takes a node off the network, or puts it back: no packet gets through, in either direction, and nobody is
// told.
func (n *network) cut(i int, off bool) {
	n.t.Helper()
	n.ip("link set " + n.port(i) + map[bool]string{true: " down", false: " up"}[off])
}

// serve starts a node in its namespace.
func (n *network) serve(i int, role, secret string) *server {
	var hosts []string
	for _, j := range n.nodes {
		hosts = append(hosts, n.address(j)+":7100")
	}
	return start(n.t, exec.Command("ip", "netns", "exec", n.space(i), troupe, "serve", "--host", n.address(i), "--port", "8000",
		"--cluster", "e2e", "--advertise", n.address(i)+":7100", "--cluster-hosts", strings.Join(hosts, ","), "--cluster-role", role,
		"--cluster-secret-file", secret, "--admin-api-key", adminKey, "--disable-uvicorn-access-log"))
}

// TestClusterOutlivesPartitions: workers are cut off in turn; streams go on with the same tokens, and a worker
// that nobody reached has forgotten what it had when it is back.
func TestClusterOutlivesPartitions(t *testing.T) {
	const streams, tokens = 16, 700
	n := newNetwork(t, 3)
	secret := newNodes(t, 0).secret
	workers := map[int]*server{3: n.serve(3, "worker", secret), 4: n.serve(4, "worker", secret)}
	front := n.serve(2, "front", secret)
	front.waitHealthy()
	front.awaitDevices(2)
	quiet, errs := front.stories(streams, tokens)
	requireNoErrors(t, errs)
	for i, cut := range workers {
		runs := front.restless(streams, tokens)
		front.eventually(func() bool { return cut.running() > 0 }, "it has work")
		n.cut(i, true)
		front.eventually(func() bool { return front.devices() == 1 }, "it is given up")
		requireLaps(t, runs, quiet, tokens)
		n.cut(i, false)
		front.awaitDevices(2)
		requireIdle(t, cut)
	}
	require.Positive(t, sum(front.scrape(), "troupe:sequence_resubmissions_total"))
	requireIdle(t, front)
}
