package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// ClusterFlags are about the other nodes of a service.
type ClusterFlags struct {
	Cluster   string   `placeholder:"NAME" help:"Join the cluster of this name: its nodes run each other's sequences, and one goes on with those of another that died."`
	Advertise string   `placeholder:"HOST:PORT" help:"Address that other nodes reach this one at; it listens there and nowhere else."`
	Role      string   `name:"cluster-role" enum:"both,front,worker" default:"both" help:"front: no devices of its own; worker: sends nothing to others."`
	Hosts     []string `name:"cluster-hosts" sep:"," placeholder:"HOST:PORT" help:"Comma-separated addresses to find nodes at. A name may stand for several, as that of a headless service does."`
	Etcd      []string `name:"cluster-etcd" sep:"," placeholder:"URL" help:"Comma-separated endpoints of an etcd to find nodes in, instead of --cluster-hosts."`
	Secret    string   `name:"cluster-secret-file" placeholder:"FILE" help:"File of a secret of at least 32 bytes that all nodes share."`
	Certfile  string   `name:"cluster-certfile" placeholder:"FILE" help:"PEM file of this node's certificate, for server and client, instead of a secret."`
	Keyfile   string   `name:"cluster-keyfile" placeholder:"FILE" help:"PEM file of its key."`
	CACerts   string   `name:"cluster-ca-certs" placeholder:"FILE" help:"PEM file of those who sign nodes' certificates."`
}

// Roles of nodes.
const (
	RoleBoth  = "both"
	RoleFront = "front"
)

// checkCluster checks what belongs together.
func (s *Serve) checkCluster() error {
	c := &s.Cluster
	if c.Cluster == "" {
		return c.checkAlone()
	}
	if c.Advertise == "" || (len(c.Hosts) == 0) == (len(c.Etcd) == 0) {
		return errors.New("--cluster requires --advertise, and --cluster-hosts or --cluster-etcd")
	}
	for _, endpoint := range c.Etcd {
		if err := checkURL("--cluster-etcd", endpoint); err != nil {
			return err
		}
	}
	for _, host := range c.Hosts {
		if err := checkHostPort("--cluster-hosts", host); err != nil {
			return err
		}
	}
	if err := checkHostPort("--advertise", c.Advertise); err != nil {
		return err
	}
	certificate := []string{c.Certfile, c.Keyfile, c.CACerts}
	some := slices.ContainsFunc(certificate, func(f string) bool { return f != "" })
	switch all := !slices.Contains(certificate, ""); {
	case c.Secret != "" && some:
		return errors.New("--cluster-secret-file cannot be combined with --cluster-certfile, --cluster-keyfile and --cluster-ca-certs")
	case some && !all:
		return errors.New("--cluster-certfile, --cluster-keyfile and --cluster-ca-certs require each other")
	case c.Secret == "" && !all:
		return errors.New("--cluster requires --cluster-secret-file, or --cluster-certfile with --cluster-keyfile and --cluster-ca-certs: nodes must prove that they belong")
	case c.Role == RoleFront && s.Scheduler.DataParallelSize > 1:
		return errors.New("--cluster-role front has no devices: it cannot be combined with --data-parallel-size")
	}
	return nil
}

// checkAlone refuses flags that mean nothing without a cluster.
func (c *ClusterFlags) checkAlone() error {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--advertise", c.Advertise != ""}, {"--cluster-role", c.Role != RoleBoth}, {"--cluster-hosts", len(c.Hosts) > 0},
		{"--cluster-etcd", len(c.Etcd) > 0},
		{"--cluster-secret-file", c.Secret != ""}, {"--cluster-certfile", c.Certfile != ""}, {"--cluster-keyfile", c.Keyfile != ""},
		{"--cluster-ca-certs", c.CACerts != ""},
	} {
		if f.given {
			return fmt.Errorf("%s requires --cluster", f.name)
		}
	}
	return nil
}

func checkHostPort(flag, address string) error {
	host, port, err := net.SplitHostPort(strings.TrimSpace(address))
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || host == "" || n < 1 || n > 65535 {
		return fmt.Errorf("%s must be HOST:PORT with a port from 1 to 65535, got %q", flag, address)
	}
	return nil
}
