package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// openCluster opens the port for other nodes, if there are to be any. Nobody is
// answered before the engine is there.
func (s *server) openCluster(p *parts, info *infer.ModelInfo) error {
	c := &s.cfg.Cluster
	if c.Cluster == "" {
		return nil
	}
	security, err := nodeSecurity(c)
	if err != nil {
		return err
	}
	provider, err := s.nodeProvider(c)
	if err != nil {
		return err
	}
	model, err := s.fingerprint(p, info)
	if err != nil {
		return err
	}
	var series *metrics.Cluster
	node, err := cluster.NewNode(cluster.Options{
		Cluster: c.Cluster, Advertise: strings.TrimSpace(c.Advertise), Role: cluster.Role(c.Role), Security: security, Provider: provider, Version: version(),
		Model: model, ModelName: info.ServedNames[0], Logger: s.log, OnRefused: func() { series.ObserveRefused() },
	})
	if err != nil {
		return err
	}
	series = metrics.NewCluster(s.registry, func() int { return len(node.Members()) })
	if err := node.Listen(); err != nil {
		return err
	}
	s.node = node
	s.closers = append(s.closers, func() error { node.Close(); return nil })
	s.log.Info(fmt.Sprintf("Node %s of cluster %s, role %s", node.Self().Address, c.Cluster, c.Role))
	return nil
}

// nodeProvider finds the other nodes in an etcd, or at a list of addresses.
func (s *server) nodeProvider(c *config.ClusterFlags) (cluster.Provider, error) {
	if len(c.Etcd) > 0 {
		return etcdProvider(c.Etcd, s.log)
	}
	return cluster.ParseHosts(strings.Join(c.Hosts, ","))
}

// maxSecretBytes bounds a secret's file.
const maxSecretBytes = 64 << 10

func nodeSecurity(c *config.ClusterFlags) (*cluster.Security, error) {
	if c.Secret == "" {
		return cluster.CertificateSecurity(c.Certfile, c.Keyfile, c.CACerts)
	}
	f, err := os.Open(c.Secret)
	if err != nil {
		return nil, fmt.Errorf("--cluster-secret-file: %w", err)
	}
	defer f.Close()
	secret, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--cluster-secret-file: %w", err)
	}
	if len(secret) > maxSecretBytes {
		return nil, fmt.Errorf("--cluster-secret-file %s has more than %d bytes", c.Secret, maxSecretBytes)
	}
	security, err := cluster.SecretSecurity(bytes.TrimSpace(secret))
	if err != nil {
		return nil, fmt.Errorf("--cluster-secret-file %s: %w", c.Secret, err)
	}
	return security, nil
}

// fingerprint names what must be equal for tokens to be: the name that the model is
// served under, its config, its tokenizer, and the types that it is held in. Weights
// are not read for it: other weights want another name.
func (s *server) fingerprint(p *parts, info *infer.ModelInfo) (string, error) {
	h := sha256.New()
	for _, name := range []string{"config.json", tokenizerFile} {
		b, err := p.folder.File(name)
		if err != nil && name == "config.json" {
			return "", missing(p.folder, name, err)
		}
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	fmt.Fprintf(h, "%q %q %s", info.ServedNames[0], s.model.Spec().DType, s.model.KVSpec().DType)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
