package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/cluster/clusterpb"
)

// Protocol is the version of what nodes say to each other. It changes with every
// change that an older node would misunderstand; nodes of different ones ignore
// each other.
const Protocol = 1

// Role says what a node does for the cluster.
type Role string

// The roles.
const (
	RoleFront  Role = "front"  // takes requests, has no device
	RoleWorker Role = "worker" // has devices; its own requests stay on them
	RoleBoth   Role = "both"
)

// Roles lists them, for the words of flags and errors.
func Roles() []string { return []string{string(RoleBoth), string(RoleFront), string(RoleWorker)} }

// TakesRequests reports whether a node of this role sends work to others.
func (r Role) TakesRequests() bool { return r != RoleWorker }

// HasDevices reports whether a node of this role takes work from others.
func (r Role) HasDevices() bool { return r != RoleFront }

// Member is a node of the cluster.
type Member struct {
	Cluster     string
	Address     string // HOST:PORT that other nodes reach it at
	Incarnation uint64 // of its process: not the same again after a restart
	Protocol    uint32
	Role        Role
	Version     string // of the program
	Model       string // fingerprint; see Candidate
	ModelName   string
	NumDevices  int
	Draining    bool
}

// Provider finds the members of a cluster.
type Provider interface {
	// Run makes self known, if the provider does that, and calls report with the
	// members whenever they change, until ctx ends. It may report self among them, and
	// nodes of other clusters or protocols never. It returns early with an error only
	// if there is no use in going on.
	Run(ctx context.Context, self *Node, report func([]Member)) error
}

// Info returns the member as nodes tell it each other.
func (m *Member) Info() *clusterpb.NodeInfo {
	return &clusterpb.NodeInfo{
		Cluster: m.Cluster, Address: m.Address, Incarnation: m.Incarnation, Protocol: m.Protocol, Role: string(m.Role),
		Version: m.Version, Model: m.Model, ModelName: m.ModelName, NumDevices: uint32(m.NumDevices), Draining: m.Draining,
	}
}

// maxDevices bounds the devices of one node.
const maxDevices = 1024

// MemberOf reads what another node says of itself.
func MemberOf(i *clusterpb.NodeInfo) (Member, error) {
	m := Member{
		Cluster: i.GetCluster(), Address: i.GetAddress(), Incarnation: i.GetIncarnation(), Protocol: i.GetProtocol(), Role: Role(i.GetRole()),
		Version: i.GetVersion(), Model: i.GetModel(), ModelName: i.GetModelName(), NumDevices: int(i.GetNumDevices()),
		Draining: i.GetDraining(),
	}
	switch {
	case m.Address == "" || m.Incarnation == 0:
		return m, fmt.Errorf("cluster: a node without address or incarnation")
	case m.NumDevices > maxDevices:
		return m, fmt.Errorf("cluster: the node at %s says that it has %d devices, the limit is %d", m.Address, m.NumDevices, maxDevices)
	case !slices.Contains(Roles(), string(m.Role)):
		return m, fmt.Errorf("cluster: the node at %s has the role %q, wanted one of %s", m.Address, m.Role, strings.Join(Roles(), ", "))
	}
	return m, nil
}

// belongs reports whether a member is of self's cluster and talks as it does.
func (m *Member) belongs(self *Member) bool {
	return m.Cluster == self.Cluster && m.Protocol == self.Protocol
}

// sortMembers orders members so that equal sets are equal slices.
func sortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		if c := strings.Compare(a.Address, b.Address); c != 0 {
			return c
		}
		return strings.Compare(fmt.Sprint(a.Incarnation), fmt.Sprint(b.Incarnation))
	})
}
