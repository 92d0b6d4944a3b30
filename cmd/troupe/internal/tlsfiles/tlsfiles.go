package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options name the files, as vLLM's flags do.
type Options struct {
	KeyFile, CertFile string // PEM; KeyFile "" = the key is in CertFile
	CACerts           string // PEM, of those who sign clients' certificates; "" = none
	CertReqs          int    // Python's ssl: 0 = clients need no certificate, 1 = it is checked if given, 2 = required
	Ciphers           string // names separated by colons, OpenSSL's or IANA's; "" = Go's choice. TLS 1.3 has its own
	Refresh           bool   // files are read again when they change

	Warn  func(message string) // told when changed files are not right; nil = nobody
	Check time.Duration        // how often files are looked at with Refresh; 0 = each second
}

const maxFileBytes = 1 << 20

// Load reads the files. Its errors name the flag.
func Load(o Options) (*tls.Config, error) {
	config, err := o.read()
	if err != nil || !o.Refresh {
		return config, err
	}
	w := &watch{o: o, config: config, seen: o.stamp(), checked: time.Now()}
	outer := config.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.current(time.Now()), nil }
	return outer, nil
}

func (o *Options) read() (*tls.Config, error) {
	suites, err := parseCiphers(o.Ciphers)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, CipherSuites: suites}
	cert, err := readFile("--ssl-certfile", o.CertFile)
	if err != nil {
		return nil, err
	}
	key := cert
	if o.KeyFile != "" {
		if key, err = readFile("--ssl-keyfile", o.KeyFile); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--ssl-certfile %s with --ssl-keyfile %s: %s", o.CertFile, o.keyFile(), strings.TrimPrefix(err.Error(), "tls: "))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, o.readClients(config)
}

func (o *Options) keyFile() string {
	if o.KeyFile == "" {
		return o.CertFile
	}
	return o.KeyFile
}

// readClients sets what is asked of clients.
func (o *Options) readClients(config *tls.Config) error {
	modes := []tls.ClientAuthType{tls.NoClientCert, tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert}
	if o.CertReqs < 0 || o.CertReqs >= len(modes) {
		return fmt.Errorf("--ssl-cert-reqs must be 0 (none), 1 (optional) or 2 (required), got %d", o.CertReqs)
	}
	config.ClientAuth = modes[o.CertReqs]
	if o.CACerts == "" {
		if o.CertReqs > 0 {
			return fmt.Errorf("--ssl-cert-reqs %d requires --ssl-ca-certs", o.CertReqs)
		}
		return nil
	}
	text, err := readFile("--ssl-ca-certs", o.CACerts)
	if err != nil {
		return err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("--ssl-ca-certs %s: there is no certificate in it", o.CACerts)
	}
	return nil
}

func readFile(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, path, errors.Unwrap(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return text, nil
}

// openSSLNames are the suites of TLS 1.2 that Go has, as OpenSSL calls them.
var openSSLNames = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// defaultCiphers are words of OpenSSL for a sensible choice; Go's is taken.
var defaultCiphers = []string{"", "DEFAULT", "HIGH", "TLSV1", "TLSV1.2"}

func parseCiphers(list string) ([]uint16, error) {
	if slices.Contains(defaultCiphers, strings.ToUpper(list)) {
		return nil, nil
	}
	var suites []uint16
	for name := range strings.SplitSeq(list, ":") {
		id, ok := openSSLNames[strings.ToUpper(name)]
		for _, s := range tls.CipherSuites() {
			if !ok && strings.EqualFold(s.Name, name) {
				id, ok = s.ID, true
			}
		}
		if !ok {
			return nil, fmt.Errorf("--ssl-ciphers: unknown or insecure cipher %q; known are %s", name, strings.Join(knownCiphers(), ", "))
		}
		suites = append(suites, id)
	}
	return suites, nil
}

func knownCiphers() []string {
	names := make([]string, 0, len(openSSLNames))
	for name := range openSSLNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// watch holds the configuration in use. It looks at the files when a client
// comes, at most once per Check, so that nothing runs while nobody does.
type watch struct {
	o Options

	mu      sync.Mutex
	config  *tls.Config
	seen    string
	checked time.Time
}

const defaultCheck = time.Second

func (w *watch) current(now time.Time) *tls.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	interval := w.o.Check
	if interval == 0 {
		interval = defaultCheck
	}
	if now.Sub(w.checked) < interval {
		return w.config
	}
	w.checked = now
	stamp := w.o.stamp()
	if stamp == w.seen {
		return w.config
	}
	w.seen = stamp
	config, err := w.o.read()
	if err != nil { // half a pair has been replaced, say: the next change is looked at again
		if w.o.Warn != nil {
			w.o.Warn("Changed TLS files are not used: " + err.Error())
		}
		return w.config
	}
	w.config = config
	return config
}

// stamp tells versions of the files apart.
func (o *Options) stamp() string {
	var b strings.Builder
	for _, path := range []string{o.CertFile, o.keyFile(), o.CACerts} {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%d:%d;", info.ModTime().UnixNano(), info.Size())
		} else {
			b.WriteString("-;")
		}
	}
	return b.String()
}
