package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Options describe a node.
type Options struct {
	Cluster   string    // name; nodes of other clusters are ignored
	Advertise string    // HOST:PORT that others reach this node at; it listens there and nowhere else
	Role      Role      // "" = RoleBoth
	Security  *Security // required
	Provider  Provider  // required
	Version   string
	Model     string // fingerprint; see Candidate
	ModelName string
	Logger    *slog.Logger // nil = nothing is logged
	// OnRefused counts connections that did not prove to be of the cluster; nil =
	// nobody does.
	OnRefused func()
}

// Node is this process as a member of a cluster. Its life: NewNode, Listen, and when
// everything is there that sessions need, Announce; Leave, Close.
type Node struct {
	o      Options
	creds  credentials.TransportCredentials // of connections that this node opens
	server *grpc.Server                     // nil before Listen

	mu        sync.Mutex
	self      Member
	announced bool
	accept    func(*Session)     // nil = none are accepted
	cancel    context.CancelFunc // ends the provider
	done      chan struct{}      // closed when that has ended

	members atomic.Pointer[[]Member]
}

// NewNode checks options; nothing is opened.
func NewNode(o Options) (*Node, error) {
	if o.Role == "" {
		o.Role = RoleBoth
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnRefused == nil {
		o.OnRefused = func() {}
	}
	switch {
	case o.Cluster == "":
		return nil, errors.New("cluster: a cluster must have a name")
	case o.Security == nil || o.Provider == nil:
		return nil, errors.New("cluster: Options.Security and Options.Provider are required")
	}
	if _, _, err := splitAddress(o.Advertise); err != nil {
		return nil, err
	}
	n := &Node{o: o, creds: credentials.NewTLS(o.Security.client)}
	n.members.Store(new([]Member))
	n.self = Member{
		Cluster: o.Cluster, Incarnation: rand.Uint64() | 1, Protocol: Protocol, Role: o.Role,
		Version: o.Version, Model: o.Model, ModelName: o.ModelName,
	}
	return n, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("cluster: the address %q is not HOST:PORT", address)
	}
	return host, port, nil
}

// Listen opens the node's port. Nobody is answered before Announce. Port 0 takes a
// free one.
func (n *Node) Listen() error {
	ln, err := net.Listen("tcp", n.o.Advertise)
	if err != nil {
		return fmt.Errorf("cluster: cannot listen on %s, the address that other nodes are told: %w", n.o.Advertise, err)
	}
	n.mu.Lock()
	n.self.Address = n.o.Advertise
	if _, port, _ := splitAddress(n.o.Advertise); port == 0 {
		n.self.Address = ln.Addr().String()
	}
	n.mu.Unlock()
	n.server = grpc.NewServer(n.serverOptions()...)
	n.server.RegisterService(&nodeService, n)
	go func() {
		if err := n.server.Serve(ln); err != nil {
			n.o.Logger.Error("the port for other nodes has failed", "error", err)
		}
	}()
	return nil
}

func (n *Node) state() (self Member, announced bool, accept func(*Session)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self, n.announced, n.accept
}

// Self returns this node as others see it.
func (n *Node) Self() Member {
	self, _, _ := n.state()
	return self
}

// Announce makes the node known and begins to look for others: report is called
// with the members other than this one whenever they change, from one goroutine.
// accept is called with each session that another node opens on one of numDevices
// devices, on a goroutine of its own; nil = there are none to be had.
func (n *Node) Announce(numDevices int, accept func(*Session), report func([]Member)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.mu.Lock()
	n.self.NumDevices, n.accept = numDevices, accept
	n.announced, n.cancel, n.done = true, cancel, done
	n.mu.Unlock()
	go func() {
		defer close(done)
		if err := n.o.Provider.Run(ctx, n, func(members []Member) { n.found(members, report) }); err != nil && ctx.Err() == nil {
			n.o.Logger.Error("the search for other nodes has ended", "error", err)
		}
	}()
}

// found keeps those who belong and are not this node.
func (n *Node) found(members []Member, report func([]Member)) {
	self := n.Self()
	others := make([]Member, 0, len(members))
	for _, m := range members {
		if m.belongs(&self) && m.Incarnation != self.Incarnation {
			others = append(others, m)
		}
	}
	sortMembers(others)
	n.members.Store(&others)
	report(others)
}

// Members returns the other nodes, as last reported.
func (n *Node) Members() []Member { return *n.members.Load() }

// Drain tells those who ask that the node will leave.
func (n *Node) Drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.self.Draining = true
}

// Leave ends membership: nobody is told of this node any more, and it hears of
// nobody. Idempotent.
func (n *Node) Leave() {
	n.mu.Lock()
	cancel, done := n.cancel, n.done
	n.announced, n.cancel = false, nil
	n.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// Close leaves, and closes the port and all sessions that others have opened.
func (n *Node) Close() {
	n.Leave()
	if n.server != nil {
		n.server.Stop()
	}
}
