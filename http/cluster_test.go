package http_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

// fakeCluster is an infer.ClusterInspector of two nodes.
type fakeCluster struct{}

func (fakeCluster) Cluster() infer.ClusterInfo {
	return infer.ClusterInfo{Name: "c", Nodes: []infer.NodeInfo{
		{Address: "a:1", Role: "front", Version: "v", Model: "m", Self: true, NumRequests: 3},
		{Address: "b:1", Role: "worker", Version: "v", Model: "m", Draining: true, Devices: []infer.DeviceInfo{{
			State: infer.DeviceServing, NumSequences: 5, NumOwnSequences: 2, NumQueuedTokens: 7, NumFreeBlocks: 8, NumBlocks: 9, SampleAge: 1500 * time.Microsecond,
		}}},
	}}
}

func TestClusterIsShown(t *testing.T) {
	s := start(t, http.Options{Cluster: fakeCluster{}})
	require.JSONEq(t, `{"object": "list", "cluster": "c", "data": [
		{"address": "a:1", "object": "node", "role": "front", "version": "v", "model": "m", "self": true, "draining": false, "num_requests": 3, "devices": []},
		{"address": "b:1", "object": "node", "role": "worker", "version": "v", "model": "m", "self": false, "draining": true, "num_requests": null, "devices": [
			{"index": 0, "state": "serving", "num_sequences": 5, "num_own_sequences": 2, "num_queued_tokens": 7, "num_free_blocks": 8, "num_blocks": 9, "sample_age_ms": 1.5}]}]}`,
		s.do(t, "GET", "/v1/cluster", "").body)
	s = start(t, http.Options{Cluster: fakeCluster{}, Keys: []http.Key{root(), named("team", "user")}})
	require.Equal(t, 403, s.do(t, "GET", "/v1/cluster", "", "Authorization", asUser).StatusCode)
	require.Equal(t, 200, s.do(t, "GET", "/v1/cluster", "", "Authorization", asRoot).StatusCode)
	s = start(t, http.Options{})
	require.Equal(t, 404, s.do(t, "GET", "/v1/cluster", "").StatusCode)
}
