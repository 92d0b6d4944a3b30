package cluster_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/clusterpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte(strings.Repeat("s", cluster.MinSecretBytes))

// testNode is a node whose members come through a channel.
type testNode struct {
	*cluster.Node
	hosts   *cluster.Hosts
	members chan []cluster.Member
	refused atomic.Int64
	accept  func(*cluster.Session)
}

func startNode(t *testing.T, secret []byte, change func(*cluster.Options)) *testNode {
	t.Helper()
	security, err := cluster.SecretSecurity(secret)
	require.NoError(t, err)
	n := &testNode{members: make(chan []cluster.Member, 100), hosts: &cluster.Hosts{Interval: 20 * time.Millisecond}}
	o := cluster.Options{
		Cluster: "c", Advertise: "127.0.0.1:0", Security: security, Provider: n.hosts, OnRefused: func() { n.refused.Add(1) },
	}
	if change != nil {
		change(&o)
	}
	n.Node, err = cluster.NewNode(o)
	require.NoError(t, err)
	require.NoError(t, n.Listen())
	t.Cleanup(n.Close)
	return n
}

// announce makes the node ask those others.
func (n *testNode) announce(others ...*testNode) {
	for _, o := range others {
		n.hosts.Hosts = append(n.hosts.Hosts, o.Self().Address)
	}
	n.Announce(2, n.accept, func(m []cluster.Member) { n.members <- m })
}

// await returns the members when there are as many.
func (n *testNode) await(count int) []cluster.Member {
	for {
		if m := <-n.members; len(m) == count {
			return m
		}
	}
}

func TestHostsFindEachOther(t *testing.T) {
	a, b := startNode(t, secret, nil), startNode(t, secret, func(o *cluster.Options) { o.Role = cluster.RoleWorker })
	foreign := startNode(t, secret, func(o *cluster.Options) { o.Cluster = "other" })
	foreign.announce(a)
	a.announce(a, b, foreign)
	require.Empty(t, <-a.members, "b has not announced itself")
	b.announce(a, b)
	found := a.await(1)[0]
	require.Equal(t, b.Self(), found)
	require.Equal(t, cluster.RoleWorker, found.Role)
	require.Equal(t, 2, found.NumDevices)
	require.Equal(t, []cluster.Member{a.Self()}, b.await(1))

	b.Drain()
	require.True(t, (<-a.members)[0].Draining)
	b.Leave()
	a.await(0)
	require.Empty(t, foreign.Members())
	require.Zero(t, a.refused.Load())
}

// open opens a session of a at b, on b's device 1, and returns its end.
func open(t *testing.T, a, b *testNode, use func(*cluster.FrontLink), receive func(*clusterpb.ToFront)) error {
	t.Helper()
	m := b.Self()
	return a.OpenSession(t.Context(), &m, 1, use, receive)
}

func TestSessions(t *testing.T) {
	const n = 2000
	a, b := startNode(t, secret, nil), startNode(t, secret, nil)
	require.Error(t, open(t, a, b, func(*cluster.FrontLink) {}, nil), "b has not announced itself")
	var got []uint64
	b.accept = func(s *cluster.Session) {
		require.Equal(t, a.Self().Address, s.Open.GetFront())
		require.Equal(t, uint32(1), s.Open.GetDevice())
		require.Equal(t, b.Self().Incarnation, s.Open.GetIncarnation())
		require.NoError(t, s.Run(func(m *clusterpb.ToWorker) {
			if m.GetBeat() != nil {
				s.Finish()
				return
			}
			got = append(got, m.GetAbort().GetSeqId())
			s.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Load{Load: &clusterpb.LoadDigest{NumSequences: uint32(m.GetAbort().GetSeqId())}}})
		}))
	}
	b.announce()
	var back []uint32
	err := open(t, a, b, func(l *cluster.FrontLink) {
		for i := range n {
			l.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Abort{Abort: &clusterpb.AbortSequence{SeqId: uint64(i)}}})
		}
		l.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Beat{Beat: &clusterpb.Beat{}}})
	}, func(m *clusterpb.ToFront) { back = append(back, m.GetLoad().GetNumSequences()) })
	require.NoError(t, err)
	require.Len(t, got, n)
	require.Len(t, back, n, "all that was sent before the end has come")
	for i := range n {
		require.Equal(t, uint64(i), got[i])
		require.Equal(t, uint32(i), back[i])
	}
}

// The end of either side is seen at the other, whichever way it comes.
func TestSessionsEnd(t *testing.T) {
	a, b := startNode(t, secret, nil), startNode(t, secret, nil)
	begun, ends := make(chan struct{}), make(chan error, 1)
	b.accept = func(s *cluster.Session) {
		begun <- struct{}{}
		ends <- s.Run(func(*clusterpb.ToWorker) {})
	}
	after := func(end func()) { go func() { <-begun; end() }() }
	b.announce()
	require.ErrorIs(t, open(t, a, b, func(l *cluster.FrontLink) { after(l.Abandon) }, func(*clusterpb.ToFront) {}), cluster.ErrAbandoned)
	<-ends

	err := open(t, a, b, func(*cluster.FrontLink) { after(b.Close) }, func(*clusterpb.ToFront) {})
	require.Error(t, err)
	require.Error(t, <-ends)

	c := startNode(t, secret, nil)
	c.accept = func(s *cluster.Session) { s.Refuse("no") }
	c.announce()
	reason := ""
	require.NoError(t, open(t, a, c, func(*cluster.FrontLink) {}, func(m *clusterpb.ToFront) { reason = m.GetClose().GetReason() }))
	require.Equal(t, "no", reason)
}

// Whoever does not know the secret finds no member, opens no session, and is
// counted; and garbage does no harm.
func TestStrangersAreRefused(t *testing.T) {
	a, b := startNode(t, secret, nil), startNode(t, secret, nil)
	stranger := startNode(t, []byte(strings.Repeat("t", 64)), nil)
	a.accept = func(s *cluster.Session) {
		require.Equal(t, b.Self().Address, s.Open.GetFront())
		s.Refuse("seen")
	}
	stranger.announce(a, b)
	a.announce(b, stranger)
	b.announce(a)
	require.Equal(t, []cluster.Member{b.Self()}, a.await(1))
	require.Eventually(t, func() bool { return a.refused.Load() > 0 && stranger.refused.Load() > 0 }, 10*time.Second, time.Millisecond)
	require.Empty(t, stranger.Members())
	require.Equal(t, []cluster.Member{b.Self()}, a.Members())
	require.Error(t, open(t, stranger, a, func(*cluster.FrontLink) {}, func(*clusterpb.ToFront) {}))

	conn, err := net.Dial("tcp", a.Self().Address)
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n" + strings.Repeat("\x00garbage\xff", 1000)))
	_ = err // the other side may have hung up already
	require.NoError(t, conn.Close())
	plain, err := tls.Dial("tcp", a.Self().Address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil { // TLS 1.3 tells a client of a missing certificate with its first read
		_, err = plain.Read(make([]byte, 1))
		_ = plain.Close()
	}
	require.Error(t, err)

	reason := ""
	require.NoError(t, open(t, b, a, func(*cluster.FrontLink) {}, func(m *clusterpb.ToFront) { reason = m.GetClose().GetReason() }))
	require.Equal(t, "seen", reason, "a still serves its own")
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := cluster.SecretSecurity([]byte("short"))
	require.ErrorContains(t, err, "at least 32 bytes, got 5")
	security, err := cluster.SecretSecurity(secret)
	require.NoError(t, err)
	good := cluster.Options{Cluster: "c", Advertise: "h:1", Security: security, Provider: &cluster.Hosts{}}
	_, err = cluster.NewNode(good)
	require.NoError(t, err)
	for _, address := range []string{"", "h", ":1", "h:x", "h:70000"} {
		o := good
		o.Advertise = address
		_, err = cluster.NewNode(o)
		require.ErrorContains(t, err, "is not HOST:PORT", address)
	}
	for _, list := range []string{"", " , ", "h", "h:0", "a:1,b"} {
		_, err = cluster.ParseHosts(list)
		require.Error(t, err, list)
	}
	hosts, err := cluster.ParseHosts("a:1, b:2,")
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, hosts.Hosts)
}

// A name that stands for several addresses is asked at each.
func TestHostsResolveNames(t *testing.T) {
	a := startNode(t, secret, nil)
	_, port, err := net.SplitHostPort(a.Self().Address)
	require.NoError(t, err)
	b := startNode(t, secret, func(o *cluster.Options) { o.Advertise = "127.0.0.2:" + port })
	a.hosts.Hosts = []string{"nodes.test:" + port}
	a.hosts.Lookup = func(_ context.Context, host string) ([]string, error) {
		require.Equal(t, "nodes.test", host)
		return []string{"127.0.0.1", "127.0.0.2"}, nil
	}
	b.Announce(1, nil, func([]cluster.Member) {})
	a.announce()
	require.True(t, slices.Contains(a.await(1), b.Self()))
}
