//go:build noetcd

package main

import (
	"errors"
	"log/slog"

	"github.com/troupe-llm/troupe/cluster"
)

// etcdProvider is left out where its client takes longer to build than all else takes
// to test.
func etcdProvider([]string, *slog.Logger) (cluster.Provider, error) {
	return nil, errors.New("--cluster-etcd: this binary was built with -tags noetcd")
}
