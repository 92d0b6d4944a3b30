package tlsfiles_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/tlsfiles"
)

// pair is a self-signed certificate with its key, PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// handshake returns the name in the server's certificate.
func handshake(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	failed := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		_ = a.Close()
		failed <- err
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	if err == nil { // under TLS 1.3 a client learns of its refusal by reading
		_, err = c.Read(make([]byte, 1))
	}
	_ = b.Close()
	if serverErr := <-failed; serverErr != nil {
		return "", serverErr
	}
	if err != nil {
		return "", err
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	p := newPair(t, "one")
	cert, key := write(t, filepath.Join(dir, "c"), p.cert), write(t, filepath.Join(dir, "k"), p.key)
	both := write(t, filepath.Join(dir, "both"), append(p.key, p.cert...))
	for _, o := range []tlsfiles.Options{
		{CertFile: cert, KeyFile: key}, {CertFile: both}, {CertFile: cert, KeyFile: key, Ciphers: "TLSv1"},
		{CertFile: cert, KeyFile: key, Ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256:TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
	} {
		config, err := tlsfiles.Load(o)
		require.NoError(t, err)
		name, err := handshake(t, config, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		require.NoError(t, err)
		require.Equal(t, "one", name)
	}
}

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	server, client, stranger := newPair(t, "server"), newPair(t, "client"), newPair(t, "stranger")
	o := tlsfiles.Options{
		CertFile: write(t, filepath.Join(dir, "c"), server.cert), KeyFile: write(t, filepath.Join(dir, "k"), server.key),
		CACerts: write(t, filepath.Join(dir, "ca"), client.cert),
	}
	with := func(p *pair) *tls.Config {
		c := &tls.Config{InsecureSkipVerify: true}
		if p != nil {
			cert, err := tls.X509KeyPair(p.cert, p.key)
			require.NoError(t, err)
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		}
		return c
	}
	for reqs, accepts := range map[int][3]bool{0: {true, true, true}, 1: {true, true, false}, 2: {false, true, false}} {
		o.CertReqs = reqs
		config, err := tlsfiles.Load(o)
		require.NoError(t, err)
		for i, p := range []*pair{nil, &client, &stranger} {
			_, err := handshake(t, config, with(p))
			require.Equal(t, accepts[i], err == nil, "%d: client %d: %v", reqs, i, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	p, other := newPair(t, "a"), newPair(t, "b")
	cert, key := write(t, filepath.Join(dir, "c"), p.cert), write(t, filepath.Join(dir, "k"), p.key)
	otherKey := write(t, filepath.Join(dir, "o"), other.key)
	for _, tt := range []struct {
		o    tlsfiles.Options
		want string
	}{
		{tlsfiles.Options{CertFile: dir + "/none", KeyFile: key}, "--ssl-certfile " + dir + "/none: no such file"},
		{tlsfiles.Options{CertFile: cert, KeyFile: dir + "/none"}, "--ssl-keyfile " + dir + "/none: no such file"},
		{tlsfiles.Options{CertFile: cert, KeyFile: otherKey}, "private key does not match"},
		{tlsfiles.Options{CertFile: cert}, "--ssl-keyfile " + cert},
		{tlsfiles.Options{CertFile: key, KeyFile: key}, "--ssl-certfile"},
		{tlsfiles.Options{CertFile: cert, KeyFile: key, CACerts: key}, "there is no certificate in it"},
		{tlsfiles.Options{CertFile: cert, KeyFile: key, CertReqs: 2}, "--ssl-cert-reqs 2 requires --ssl-ca-certs"},
		{tlsfiles.Options{CertFile: cert, KeyFile: key, CertReqs: 3}, "--ssl-cert-reqs must be"},
		{tlsfiles.Options{CertFile: cert, KeyFile: key, Ciphers: "RC4"}, `cipher "RC4"`},
	} {
		_, err := tlsfiles.Load(tt.o)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestChangedFilesAreTakenIntoUse(t *testing.T) {
	dir := t.TempDir()
	first, second := newPair(t, "first"), newPair(t, "second")
	var warnings []string
	o := tlsfiles.Options{
		CertFile: write(t, filepath.Join(dir, "c"), first.cert), KeyFile: write(t, filepath.Join(dir, "k"), first.key),
		Refresh: true, Check: 1, Warn: func(s string) { warnings = append(warnings, s) },
	}
	config, err := tlsfiles.Load(o)
	require.NoError(t, err)
	served := func() string {
		name, err := handshake(t, config, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		return name
	}
	// A file's time may be as coarse as a clock tick: set it.
	change := func(path string, text []byte, hour int) {
		write(t, path, text)
		at := time.Now().Add(time.Duration(hour) * time.Hour)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	require.Equal(t, "first", served())
	change(o.CertFile, second.cert, 1)
	require.Equal(t, "first", served(), "half a pair is not used")
	require.Len(t, warnings, 1)
	change(o.KeyFile, second.key, 1)
	require.Equal(t, "second", served())
	require.Equal(t, "second", served())
	require.Len(t, warnings, 1)
}
