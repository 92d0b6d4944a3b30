package actors

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
)

// membership is what the actors of an engine share about its cluster.
type membership struct {
	node  *cluster.Node
	role  cluster.Role
	model string // fingerprint: only devices of this one will do

	gone   chan struct{}  // closed when no actor is left to answer
	links  sync.WaitGroup // goroutines of sessions on other nodes
	hosted hosted
	views  atomic.Pointer[[]*remoteView] // of devices of other nodes, for lookers-on
}

func newMembership(node *cluster.Node) *membership {
	if node == nil {
		return nil
	}
	self := node.Self()
	m := &membership{node: node, role: self.Role, model: self.Model, gone: make(chan struct{}), hosted: hosted{empty: make(chan struct{})}}
	m.views.Store(new([]*remoteView))
	return m
}

// close says that nobody answers any more. A nil membership has nobody waiting.
func (m *membership) close() {
	if m != nil {
		close(m.gone)
	}
}

// hosted counts the sequences of other nodes on devices of this one, so that they
// can be waited for.
type hosted struct {
	mu       sync.Mutex
	n        int
	draining bool
	empty    chan struct{} // closed once draining and none is left
}

// add changes the count.
func (h *hosted) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.n
	h.n += n
	if h.draining && h.n == 0 && before > 0 {
		h.close()
	}
}

// drain returns a channel that closes when none is left.
func (h *hosted) drain() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
	if h.n == 0 {
		h.close()
	}
	return h.empty
}

// close is called with the lock. A sequence that comes late finds it closed.
func (h *hosted) close() {
	select {
	case <-h.empty:
	default:
		close(h.empty)
	}
}

func (h *hosted) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// announce lets other nodes in, once the actors that answer them are there.
func (e *Engine) announce() {
	m := e.env.cluster
	if m == nil {
		return
	}
	var accept func(*cluster.Session)
	if m.role.HasDevices() {
		accept = e.env.host(e.supervisor)
	}
	m.node.Announce(e.config.DataParallelSize, accept, func(members []cluster.Member) {
		if m.role.TakesRequests() {
			e.env.root.Send(e.supervisor, &membersChanged{members: members})
		}
	})
}

// leave tells other nodes to send nothing more, and returns a channel that closes
// when all that they sent has ended.
func (e *Engine) leave() <-chan struct{} {
	m := e.env.cluster
	if m == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	m.node.Drain()
	empty := m.hosted.drain()
	e.env.root.Send(e.supervisor, &drainSessions{})
	return empty
}

// addDemands says what the job's sequences need, so that any node can be asked.
func (e *Engine) addDemands(j *job) {
	m := e.env.cluster
	if m == nil || !m.role.TakesRequests() {
		return
	}
	var last *prompt
	var prefixes []uint64
	for i := range j.sequences {
		s := &j.sequences[i]
		if s.prompt != last {
			last, prefixes = s.prompt, cluster.PrefixHashes(j.request.CacheSalt, s.prompt.tokenIDs)
		}
		n := len(s.prompt.tokenIDs)
		s.demand = &cluster.Demand{
			Model: m.model, NumTokens: n, MaxNumTokens: n + s.params.MaxTokens, Prefixes: prefixes}
	}
}

// resumed is the demand of a sequence that has numTokens tokens to be computed again.
func resumed(d *cluster.Demand, numTokens int) *cluster.Demand {
	if d == nil || numTokens == 0 {
		return d
	}
	more := *d
	more.NumTokens += numTokens
	return &more
}

// prefixes is a device's digest of prompts, which sessions and the supervisor share.
type prefixes struct {
	mu       sync.Mutex
	digest   cluster.Digest
	snapshot *cluster.Digest // as it was at some version; never written to
}

func (p *prefixes) add(hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.digest.Add(hashes)
}

// latest returns a digest that does not change; nil = empty.
func (p *prefixes) latest() *cluster.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.digest.Version() == 0 {
		return nil
	}
	if p.snapshot == nil || p.snapshot.Version() != p.digest.Version() {
		copied := p.digest
		p.snapshot = &copied
	}
	return p.snapshot
}

var _ infer.ClusterInspector = (*Engine)(nil)

// Cluster implements infer.ClusterInspector.
func (e *Engine) Cluster() infer.ClusterInfo {
	m := e.env.cluster
	if m == nil {
		return infer.ClusterInfo{}
	}
	self := m.node.Self()
	info := infer.ClusterInfo{Name: self.Cluster, Nodes: []infer.NodeInfo{e.ownNode(&self)}}
	views := *m.views.Load()
	now := e.env.clock()
	for _, member := range m.node.Members() {
		n := toNodeInfo(&member)
		for _, v := range views {
			if v.key.incarnation == member.Incarnation {
				n.Devices = append(n.Devices, v.info(now))
			}
		}
		slices.SortFunc(n.Devices, func(a, b infer.DeviceInfo) int { return a.Index - b.Index })
		info.Nodes = append(info.Nodes, n)
	}
	return info
}

func (e *Engine) ownNode(self *cluster.Member) infer.NodeInfo {
	n := toNodeInfo(self)
	n.Self, n.NumRequests = true, len(e.Requests())
	for _, d := range e.env.livingDevices() {
		n.Devices = append(n.Devices, infer.DeviceInfo{
			Index: len(n.Devices), State: infer.DeviceServing,
			NumSequences: int(d.seat.sequences.Load()), NumOwnSequences: -1, NumQueuedTokens: int(d.seat.tokens.Load()),
			NumFreeBlocks: int(d.device.freeBlocks.Load()), NumBlocks: d.device.spec.NumBlocks,
		})
	}
	return n
}

func toNodeInfo(m *cluster.Member) infer.NodeInfo {
	return infer.NodeInfo{
		Address: m.Address, Role: string(m.Role), Version: m.Version, Model: m.ModelName, Draining: m.Draining,
	}
}

// sampleAge is how long ago a sample was taken, as far as its receiver can tell.
func sampleAge(now, at int64) time.Duration { return time.Duration(max(now-at, 0)) }
