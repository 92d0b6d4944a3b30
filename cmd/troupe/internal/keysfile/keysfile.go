package keysfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"

	"github.com/troupe-llm/troupe/http"
)

// Limits of what a file may hold.
const (
	maxFileBytes = 4 << 20
	maxKeys      = 1000 // each has series of its own
	maxNameBytes = 64
	maxSecret    = 512
	maxPerMinute = 1 << 30
	maxWeight    = 1000
)

// AdminName is the name of the key given with --admin-api-key.
const AdminName = "admin"

// entry is one key of the file.
type entry struct {
	Name              string `yaml:"name"`
	Key               string `yaml:"key"`
	KeySHA256         string `yaml:"key_sha256"` // hex, in place of key
	RequestsPerMinute int    `yaml:"requests_per_minute"`
	TokensPerMinute   int    `yaml:"tokens_per_minute"`
	Weight            int    `yaml:"weight"`
	Admin             bool   `yaml:"admin"`
}

// Load reads the keys of a file and adds the administrator's; both may be "".
func Load(path, adminKey string) ([]http.Key, error) {
	var keys []http.Key
	if path != "" {
		text, err := read(path)
		if err == nil {
			keys, err = Parse(text)
		}
		if err != nil {
			return nil, fmt.Errorf("--api-keys-file %s: %w", path, err)
		}
	}
	if adminKey == "" {
		return keys, nil
	}
	admin := http.Key{Name: AdminName, SHA256: sha256.Sum256([]byte(adminKey)), Admin: true}
	for _, k := range keys {
		if k.Name == admin.Name || k.SHA256 == admin.SHA256 {
			return nil, fmt.Errorf("--admin-api-key: the file has that key, or one named %q, too", AdminName)
		}
	}
	return append(keys, admin), nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	return text, err
}

// Parse reads the YAML text of a file: {keys: [{name, key, …}, …]}. Errors name
// the entry, and never its secret.
func Parse(text []byte) ([]http.Key, error) {
	var file struct {
		Keys []entry `yaml:"keys"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, redact(err)
	}
	if len(file.Keys) == 0 {
		return nil, errors.New("it holds no keys: expected a list under keys")
	}
	if len(file.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys are more than %d", len(file.Keys), maxKeys)
	}
	keys := make([]http.Key, 0, len(file.Keys))
	names, secrets := map[string]bool{}, map[[sha256.Size]byte]string{}
	for i := range file.Keys {
		k, err := file.Keys[i].key()
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if names[k.Name] {
			return nil, fmt.Errorf("keys[%d]: the name %q is there twice", i, k.Name)
		}
		if other, ok := secrets[k.SHA256]; ok {
			return nil, fmt.Errorf("keys[%d]: %q and %q have the same key", i, other, k.Name)
		}
		names[k.Name], secrets[k.SHA256] = true, k.Name
		keys = append(keys, k)
	}
	return keys, nil
}

// redact keeps the places of a YAML error and drops its words: they quote values.
func redact(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return errors.New("it is not valid YAML")
	}
	line := 0
	if len(wrong.Errors) > 0 {
		_, _ = fmt.Sscanf(wrong.Errors[0], "line %d:", &line)
	}
	return fmt.Errorf("line %d: an unknown field or a value of the wrong type; a key has name, key or key_sha256, requests_per_minute, tokens_per_minute, weight and admin", line)
}

func (e *entry) key() (http.Key, error) {
	k := http.Key{
		Name: e.Name, RequestsPerMinute: e.RequestsPerMinute, TokensPerMinute: e.TokensPerMinute, Weight: e.Weight, Admin: e.Admin,
	}
	if err := checkName(e.Name); err != nil {
		return k, err
	}
	for _, r := range []struct {
		field        string
		value, limit int
	}{
		{"requests_per_minute", e.RequestsPerMinute, maxPerMinute},
		{"tokens_per_minute", e.TokensPerMinute, maxPerMinute},
		{"weight", e.Weight, maxWeight},
	} {
		if r.value < 0 || r.value > r.limit {
			return k, fmt.Errorf("%q: %s must be from 0 to %d, got %d", e.Name, r.field, r.limit, r.value)
		}
	}
	switch {
	case (e.Key == "") == (e.KeySHA256 == ""):
		return k, fmt.Errorf("%q: exactly one of key and key_sha256 is needed", e.Name)
	case len(e.Key) > maxSecret:
		return k, fmt.Errorf("%q: key is longer than %d bytes", e.Name, maxSecret)
	case e.Key != "":
		k.SHA256 = sha256.Sum256([]byte(e.Key))
		return k, nil
	}
	sum, err := hex.DecodeString(e.KeySHA256)
	if err != nil || len(sum) != sha256.Size {
		return k, fmt.Errorf("%q: key_sha256 must be %d hex digits", e.Name, 2*sha256.Size)
	}
	copy(k.SHA256[:], sum)
	return k, nil
}

// checkName accepts what can stand in logs and labels as it is.
func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("name must have 1 to %d bytes, got %d", maxNameBytes, len(name))
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return errors.New("name must be visible ASCII")
		}
	}
	return nil
}
