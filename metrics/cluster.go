package metrics

import "github.com/prometheus/client_golang/prometheus"

// Cluster counts what a node sees of others.
type Cluster struct{ refused prometheus.Counter }

// NewCluster makes and registers the series of a node. numNodes, asked at each
// scrape, is how many other nodes are known. It panics if reg already holds them.
func NewCluster(reg prometheus.Registerer, numNodes func() int) *Cluster {
	c := &Cluster{refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "troupe:cluster_refused_connections_total",
		Help: "Number of connections to the cluster's port that did not prove to be of the cluster.",
	})}
	nodes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "troupe:cluster_other_nodes", Help: "Number of other nodes of the cluster that are known.",
	}, func() float64 { return float64(numNodes()) })
	reg.MustRegister(c.refused, nodes)
	return c
}

// ObserveRefused counts a connection that was refused.
func (c *Cluster) ObserveRefused() { c.refused.Inc() }
