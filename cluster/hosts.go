package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Hosts finds members by asking every address of a list, again and again. A name
// that stands for several addresses, as that of a Kubernetes headless service does,
// is asked at each of them.
type Hosts struct {
	Hosts    []string      // HOST:PORT
	Interval time.Duration // between two rounds; 0 = 1 s
	Lookup   func(ctx context.Context, host string) ([]string, error)
}

var _ Provider = (*Hosts)(nil)

const (
	defaultInterval = time.Second
	askTimeout      = time.Second
	// maxMisses rounds in a row may go without an answer before a member is gone: one
	// that is starved misses one or two.
	maxMisses = 3
	// maxTargets bounds the addresses that names may stand for.
	maxTargets = 4096
)

// ParseHosts reads HOST:PORT,HOST:PORT…
func ParseHosts(list string) (*Hosts, error) {
	h := &Hosts{}
	for _, host := range strings.Split(list, ",") {
		if host = strings.TrimSpace(host); host == "" {
			continue
		}
		if _, port, err := splitAddress(host); err != nil || port == 0 {
			return nil, fmt.Errorf("cluster: the host %q is not HOST:PORT", host)
		}
		h.Hosts = append(h.Hosts, host)
	}
	if len(h.Hosts) == 0 {
		return nil, errors.New("cluster: the list of hosts is empty")
	}
	return h, nil
}

// target is an address that is asked.
type target struct {
	conn   *grpc.ClientConn
	member Member // as last answered
	known  bool   // member is valid
	misses int    // rounds since
	wanted bool   // a name still stands for it
}

// Run implements Provider.
func (h *Hosts) Run(ctx context.Context, self *Node, report func([]Member)) error {
	interval := h.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	s := search{hosts: h, node: self, targets: map[string]*target{}}
	defer s.close()
	var last []Member
	for first := true; ; first = false {
		members := s.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if first || !slices.Equal(members, last) {
			last = members
			report(slices.Clone(members))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// search is the state of Run.
type search struct {
	hosts   *Hosts
	node    *Node
	targets map[string]*target
}

// round asks everybody at once and returns who is there.
func (s *search) round(ctx context.Context) []Member {
	s.resolve(ctx)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, t := range s.targets {
		wg.Go(func() { t.ask(ctx) })
	}
	wg.Wait()
	var members []Member
	for _, t := range s.targets {
		if t.known && !slices.Contains(members, t.member) { // two names may lead to one node
			members = append(members, t.member)
		}
	}
	sortMembers(members)
	return members
}

func (t *target) ask(ctx context.Context) {
	m, err := ask(ctx, t.conn)
	if err == nil {
		t.member, t.known, t.misses = m, true, 0
		return
	}
	if t.misses++; t.misses >= maxMisses {
		t.known = false
	}
}

// resolve finds the addresses. A name that cannot be resolved now stands for what it
// stood for before.
func (s *search) resolve(ctx context.Context) {
	failed := false
	for _, t := range s.targets {
		t.wanted = false
	}
	for _, host := range s.hosts.Hosts {
		addresses, err := s.lookup(ctx, host)
		failed = failed || err != nil
		for _, address := range addresses {
			s.want(address)
		}
	}
	for address, t := range s.targets {
		if !t.wanted && !failed && !t.known {
			_ = t.conn.Close()
			delete(s.targets, address)
		}
	}
}

func (s *search) lookup(ctx context.Context, host string) ([]string, error) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(name) != nil {
		return []string{host}, nil
	}
	lookup := s.hosts.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ips, err := lookup(ctx, name)
	if len(ips) == 1 {
		return []string{host}, err // by its name, which its certificate may be for
	}
	addresses := make([]string, len(ips))
	for i, ip := range ips {
		addresses[i] = net.JoinHostPort(ip, port)
	}
	return addresses, err
}

func (s *search) want(address string) {
	if t := s.targets[address]; t != nil {
		t.wanted = true
		return
	}
	if len(s.targets) >= maxTargets {
		return
	}
	conn, err := s.node.dial(address)
	if err != nil {
		s.node.o.Logger.Error("a host of the cluster cannot be asked", "host", address, "error", err)
		return
	}
	s.targets[address] = &target{conn: conn, wanted: true}
}

func (s *search) close() {
	for _, t := range s.targets {
		_ = t.conn.Close()
	}
}
