//go:build !noetcd

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/clusterpb"
)

// Provider finds members in an etcd. What is kept there says where nodes are, not
// who belongs: that, they prove to each other.
type Provider struct {
	Endpoints []string // URLs
	// Warn is told when etcd cannot be reached; nil = nobody is.
	Warn func(err error)
}

var _ cluster.Provider = (*Provider)(nil)

const (
	// leaseSeconds after its node was last heard of, a key is gone.
	leaseSeconds = 10
	dialTimeout  = 5 * time.Second
	callTimeout  = 5 * time.Second
	retryAfter   = time.Second
	// refresh is how soon others see that a node drains.
	refresh = time.Second
)

// Run implements cluster.Provider. While etcd cannot be reached the members stay
// what they were: nodes go on without it.
func (p *Provider) Run(ctx context.Context, self *cluster.Node, report func([]cluster.Member)) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: p.Endpoints, DialTimeout: dialTimeout, Context: ctx, Logger: zap.NewNop(),
		DialKeepAliveTime: dialTimeout, DialKeepAliveTimeout: dialTimeout,
	})
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		s := session{client: client, node: self, prefix: prefixOf(self), report: report}
		if err := s.run(ctx); ctx.Err() == nil && p.Warn != nil {
			p.Warn(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
	return nil
}

func prefixOf(n *cluster.Node) string { return "/troupe/" + n.Self().Cluster + "/nodes/" }

// session lasts as long as the lease of this node's key and the watch of the others'.
type session struct {
	client *clientv3.Client
	node   *cluster.Node
	prefix string
	report func([]cluster.Member)

	lease   clientv3.LeaseID
	written *clusterpb.NodeInfo // under this node's key
	members map[string]cluster.Member
}

func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	revision, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.tell()
	changes := s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for {
		select {
		case _, ok := <-alive:
			if !ok {
				return errors.New("etcd: the lease of this node's key was lost")
			}
		case c, ok := <-changes:
			if err := c.Err(); err != nil || !ok {
				return fmt.Errorf("etcd: the watch has ended: %w", err)
			}
			s.apply(c.Events)
			s.tell()
		case <-ticker.C:
			if err := s.write(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join writes this node's key under a lease that is kept alive.
func (s *session) join(ctx context.Context) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := s.client.Grant(call, leaseSeconds)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	s.lease = lease.ID
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	return s.client.KeepAlive(ctx, lease.ID)
}

// write brings this node's key up to date.
func (s *session) write(ctx context.Context) error {
	self := s.node.Self()
	info := self.Info()
	if proto.Equal(info, s.written) {
		return nil
	}
	value, err := protojson.Marshal(info)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key := s.prefix + strconv.FormatUint(self.Incarnation, 16)
	if _, err := s.client.Put(call, key, string(value), clientv3.WithLease(s.lease)); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	s.written = info
	return nil
}

// leave takes the key away, if etcd answers; else it goes by itself.
func (s *session) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.client.Ctx()), retryAfter)
	defer cancel()
	_, _ = s.client.Revoke(ctx, s.lease)
}

func (s *session) list(ctx context.Context) (revision int64, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := s.client.Get(call, s.prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, fmt.Errorf("etcd: %w", err)
	}
	s.members = map[string]cluster.Member{}
	for _, kv := range all.Kvs {
		s.set(string(kv.Key), kv.Value)
	}
	return all.Header.Revision, nil
}

func (s *session) apply(events []*clientv3.Event) {
	for _, e := range events {
		if e.Type == clientv3.EventTypeDelete {
			delete(s.members, string(e.Kv.Key))
			continue
		}
		s.set(string(e.Kv.Key), e.Kv.Value)
	}
}

// set takes a key's value; one that cannot be read is nobody's.
func (s *session) set(key string, value []byte) {
	var info clusterpb.NodeInfo
	unmarshal := protojson.UnmarshalOptions{DiscardUnknown: true} // of newer nodes
	if err := unmarshal.Unmarshal(value, &info); err != nil {
		delete(s.members, key)
		return
	}
	m, err := cluster.MemberOf(&info)
	if err != nil {
		delete(s.members, key)
		return
	}
	s.members[key] = m
}

func (s *session) tell() { s.report(slices.Collect(maps.Values(s.members))) }
