package infer

import "time"

// ClusterInspector looks into the cluster that a Generator belongs to. It is safe
// for concurrent use, cheap, and never holds up a token.
type ClusterInspector interface {
	// Cluster returns what this node knows of all nodes; the zero value if it is in no
	// cluster.
	Cluster() ClusterInfo
}

// ClusterInfo is a cluster as one of its nodes sees it.
type ClusterInfo struct {
	Name  string // "" = there is none
	Nodes []NodeInfo
}

// NodeInfo is a node; the first of a ClusterInfo is the one that was asked.
type NodeInfo struct {
	Address     string
	Role        string // front, worker, both
	Version     string
	Model       string
	Self        bool
	Draining    bool
	NumRequests int // in flight, of its own clients; of Self only
	Devices     []DeviceInfo
}

// DeviceState says whether a device takes sequences.
type DeviceState string

// The states.
const (
	DeviceServing    DeviceState = "serving"
	DeviceConnecting DeviceState = "connecting" // no session yet, or not again
	DeviceDraining   DeviceState = "draining"
)

// DeviceInfo is a device. Of another node it is as its latest sample said, and it
// is only known to nodes that place sequences there.
type DeviceInfo struct {
	Index           int
	State           DeviceState
	NumSequences    int // assigned to it by anybody
	NumOwnSequences int // of these, by the node that was asked; -1 = not told apart
	NumQueuedTokens int // of prompts that wait for their first step
	NumFreeBlocks   int
	NumBlocks       int
	SampleAge       time.Duration
}
