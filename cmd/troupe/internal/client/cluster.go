package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// PathCluster lists the nodes of a server's cluster.
const PathCluster = "/v1/cluster"

// Node is a node of a cluster, as the server that was asked knows it.
type Node struct {
	Address     string   `json:"address"`
	Role        string   `json:"role"`
	Version     string   `json:"version"`
	Model       string   `json:"model"`
	Self        bool     `json:"self"`
	Draining    bool     `json:"draining"`
	NumRequests *int     `json:"num_requests"`
	Devices     []Device `json:"devices"`
}

// Device is a device of a node.
type Device struct {
	Index           int     `json:"index"`
	State           string  `json:"state"`
	NumSequences    int     `json:"num_sequences"`
	NumOwnSequences *int    `json:"num_own_sequences"`
	NumQueuedTokens int     `json:"num_queued_tokens"`
	NumFreeBlocks   int     `json:"num_free_blocks"`
	NumBlocks       int     `json:"num_blocks"`
	SampleAgeMs     float64 `json:"sample_age_ms"`
}

// Cluster returns the nodes, the server's own first. Their strings hold nothing that
// a terminal would obey.
func (c *Client) Cluster(ctx context.Context) ([]Node, error) {
	resp, err := c.do(ctx, http.MethodGet, PathCluster, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct{ Data []Node }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBodyBytes)).Decode(&list); err != nil {
		return nil, err
	}
	for i := range list.Data {
		n := &list.Data[i]
		n.Address, n.Role, n.Version, n.Model = printable(n.Address), printable(n.Role), printable(n.Version), printable(n.Model)
		for j := range n.Devices {
			n.Devices[j].State = printable(n.Devices[j].State)
		}
	}
	return list.Data, nil
}
