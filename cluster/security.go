package cluster

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"google.golang.org/grpc/credentials"
)

// Security is what nodes prove to each other, on every connection and in both
// directions, that they belong together. Nothing is said before that, and nothing
// unencrypted.
type Security struct{ server, client *tls.Config }

// MinSecretBytes is the length of the shortest secret. Whoever can reach a node can
// learn the public half of the key made from it, and try secrets at leisure: a
// secret must be too long to be guessed.
const MinSecretBytes = 32

var errStranger = errors.New("cluster: the peer does not know the cluster's secret")

// SecretSecurity makes one key pair from a secret that all nodes share. TLS then
// proves that a peer has the private half, in each direction; there is no authority
// and nothing expires.
func SecretSecurity(secret []byte) (*Security, error) {
	if len(secret) < MinSecretBytes {
		return nil, fmt.Errorf("the cluster's secret must have at least %d bytes, got %d", MinSecretBytes, len(secret))
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "troupe cluster node key v1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "troupe node"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAnyClientCert,
		// No name and no chain is looked at: the key is all there is to verify.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
	}
	return &Security{server: config, client: config.Clone()}, nil
}

// CertificateSecurity takes a certificate, its key and the certificates of those
// who sign nodes', all PEM files. A node's certificate must be good for a server of
// the host that it advertises, and for a client.
func CertificateSecurity(certFile, keyFile, caFile string) (*Security, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("the cluster's certificate: %w", err)
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("the cluster's authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the cluster's authorities: there is no certificate in %s", caFile)
	}
	base := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	s := &Security{server: base, client: base.Clone()}
	s.server.ClientAuth, s.server.ClientCAs = tls.RequireAndVerifyClientCert, pool
	s.client.RootCAs = pool
	return s, nil
}

// countingCredentials tells of connections that were refused.
type countingCredentials struct {
	credentials.TransportCredentials
	refused func(peer string, err error)
}

// handshakeTimeout bounds how long a stranger can keep a connection that says
// nothing.
const handshakeTimeout = 5 * time.Second

// ServerHandshake implements credentials.TransportCredentials.
func (c *countingCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, nil, err
	}
	secure, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		c.refused(conn.RemoteAddr().String(), err)
		return nil, nil, err
	}
	return secure, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *countingCredentials) Clone() credentials.TransportCredentials {
	return &countingCredentials{TransportCredentials: c.TransportCredentials.Clone(), refused: c.refused}
}
