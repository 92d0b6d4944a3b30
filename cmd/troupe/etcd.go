//go:build !noetcd

package main

import (
	"log/slog"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/etcd"
)

// etcdProvider finds nodes in an etcd.
func etcdProvider(endpoints []string, log *slog.Logger) (cluster.Provider, error) {
	return &etcd.Provider{Endpoints: endpoints, Warn: func(err error) {
		log.Warn("etcd cannot be used now: the nodes that were known stay", "error", err)
	}}, nil
}
