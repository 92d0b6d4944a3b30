package config

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxConfigBytes bounds a config file.
const maxConfigBytes = 1 << 20

// readFile turns a YAML file into settings: one mapping whose keys are flags'
// names. true and false switch (no-name too), lists give several values, mappings become JSON.
func readFile(path string, kinds map[string]flagKind) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	if len(text) > maxConfigBytes {
		return nil, usagef("--config: %s is larger than %d bytes", path, maxConfigBytes)
	}
	settings, err := parseFile(text, kinds)
	if err != nil {
		return nil, usagef("--config: %s: %w", path, err)
	}
	return settings, nil
}

func parseFile(text []byte, kinds map[string]flagKind) ([]setting, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 {
		return nil, nil // an empty file
	}
	mapping := root.Content[0]
	if mapping.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: expected flags as keys of a mapping", mapping.Line)
	}
	var settings []setting
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := strings.ReplaceAll(key.Value, "_", "-")
		kind, ok := kinds[name]
		on, negated := strings.CutPrefix(name, "no-")
		if negated = negated && !ok && kinds[on].twoWay; negated {
			name, kind, ok = on, kinds[on], true
		}
		if !ok || name == "config" {
			return nil, fmt.Errorf("line %d: unknown key %q", key.Line, key.Value)
		}
		s, given, err := fileSetting(setting{name: name}, kind, value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err)
		}
		s.off = s.off != negated
		if given {
			settings = append(settings, s)
		}
	}
	return settings, nil
}

// fileSetting reads one value; given is false for null, which leaves the default.
func fileSetting(s setting, kind flagKind, node *yaml.Node) (_ setting, given bool, err error) {
	var v any
	if err := node.Decode(&v); err != nil {
		return s, false, err
	}
	if v == nil {
		return s, false, nil
	}
	if kind.arity == takesNothing {
		on, ok := v.(bool)
		if !ok {
			return s, false, fmt.Errorf("expected true or false but got %v", v)
		}
		s.off = !on
		return s, true, nil
	}
	list, isList := v.([]any)
	if !isList || kind.arity != takesList {
		list = []any{v}
	}
	for _, item := range list {
		text, err := fileText(item)
		if err != nil {
			return s, false, err
		}
		s.values = append(s.values, text)
	}
	return s, len(s.values) > 0, nil
}

// fileText writes a YAML value as the command line would have it.
func fileText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case map[string]any, []any:
		text, err := json.Marshal(v)
		return string(text), err
	default:
		return fmt.Sprint(v), nil
	}
}
