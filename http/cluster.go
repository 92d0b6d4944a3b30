package http

import (
	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
)

// clusterNode is a node as administrators see it.
type clusterNode struct {
	Address     string          `json:"address"`
	Object      string          `json:"object"` // "node"
	Role        string          `json:"role"`
	Version     string          `json:"version"`
	Model       string          `json:"model"`
	Self        bool            `json:"self"` // the node that was asked
	Draining    bool            `json:"draining"`
	NumRequests *int            `json:"num_requests"` // in flight, of its own clients; null = not known here
	Devices     []clusterDevice `json:"devices"`
}

// clusterDevice is a device as the node that was asked knows it: of another node,
// from its latest sample.
type clusterDevice struct {
	Index           int     `json:"index"`
	State           string  `json:"state"`
	NumSequences    int     `json:"num_sequences"`
	NumOwnSequences *int    `json:"num_own_sequences"` // of the node that was asked; null = not told apart
	NumQueuedTokens int     `json:"num_queued_tokens"`
	NumFreeBlocks   int     `json:"num_free_blocks"`
	NumBlocks       int     `json:"num_blocks"`
	SampleAgeMs     float64 `json:"sample_age_ms"`
}

// showCluster serves GET /v1/cluster: the nodes of the service, the one that was
// asked first.
func (s *Server) showCluster(c *fiber.Ctx) error {
	info := s.opts.Cluster.Cluster()
	data := make([]clusterNode, len(info.Nodes))
	for i := range info.Nodes {
		data[i] = toClusterNode(&info.Nodes[i])
	}
	return c.JSON(struct {
		Object  string        `json:"object"`
		Cluster string        `json:"cluster"`
		Data    []clusterNode `json:"data"`
	}{"list", info.Name, data})
}

func toClusterNode(n *infer.NodeInfo) clusterNode {
	out := clusterNode{
		Address: n.Address, Object: "node", Role: n.Role, Version: n.Version, Model: n.Model, Self: n.Self, Draining: n.Draining,
		Devices: make([]clusterDevice, len(n.Devices)),
	}
	if n.Self {
		out.NumRequests = &n.NumRequests
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		out.Devices[i] = clusterDevice{
			Index: d.Index, State: string(d.State), NumSequences: d.NumSequences, NumQueuedTokens: d.NumQueuedTokens,
			NumFreeBlocks: d.NumFreeBlocks, NumBlocks: d.NumBlocks, SampleAgeMs: float64(d.SampleAge) / 1e6,
		}
		if d.NumOwnSequences >= 0 {
			out.Devices[i].NumOwnSequences = &d.NumOwnSequences
		}
	}
	return out
}
