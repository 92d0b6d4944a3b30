package config

import (
	"encoding/json"
	"slices"
	"strings"
)

// setting is one flag as given, before its value is looked at.
type setting struct {
	name   string // with dashes, without the leading ones; no dotted members
	path   []string
	values []string // nil for a switch
	off    bool     // --no-name
}

// flagKind is what the lexer must know of a flag.
type flagKind struct {
	arity  arity
	json   bool // takes dotted members
	twoWay bool // has a --no- twin
}

// lexer splits a command's arguments into settings and positional arguments.
type lexer struct {
	kinds    map[string]flagKind
	settings []setting
	words    []string // positional arguments
	unknown  []string // arguments that kong shall complain about, with suggestions
	help     *string  // topic of --help, "" = none given
	version  bool
}

func (l *lexer) run(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--":
			l.words = append(l.words, args...)
			return nil
		case arg == "-h":
			l.help = new(string)
		case strings.HasPrefix(arg, "--"):
			args, err = l.long(arg[2:], args)
		case strings.HasPrefix(arg, "-") && len(arg) > 1:
			args, err = l.short(arg, args)
		default:
			l.words = append(l.words, arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// long reads --name, --name=value or --name.member value and returns the
// arguments that are left.
func (l *lexer) long(arg string, rest []string) ([]string, error) {
	name, value, hasValue := strings.Cut(arg, "=")
	name = strings.ReplaceAll(name, "_", "-")
	switch name {
	case "help":
		l.help = &value
		return rest, nil
	case "version":
		l.version = true
		return rest, nil
	}
	s := setting{name: name}
	kind, known := l.kinds[name]
	if base, member, dotted := strings.Cut(name, "."); !known && dotted && l.kinds[base].json {
		// Members keep their underscores: they are JSON, not flags.
		_, member, _ = strings.Cut(strings.SplitN(arg, "=", 2)[0], ".")
		s.name, s.path, kind, known = base, strings.Split(member, "."), l.kinds[base], true
	}
	if on, negated := strings.CutPrefix(name, "no-"); !known && negated && l.kinds[on].twoWay {
		s.name, s.off, kind, known = on, true, l.kinds[on], true
	}
	if !known {
		l.unknown = append(l.unknown, "--"+name)
		return rest, nil
	}
	return l.value(s, kind, inline{value, hasValue}, rest)
}

// inline is the part of an argument after its =.
type inline struct {
	value string
	given bool
}

// value completes s with the values that its kind wants.
func (l *lexer) value(s setting, kind flagKind, in inline, rest []string) ([]string, error) {
	switch {
	case kind.arity == takesNothing && in.given:
		on, err := parseSwitch(in.value)
		if err != nil || s.off {
			return nil, usagef("--%s takes no value but got %q", s.name, in.value)
		}
		s.off = !on
	case kind.arity == takesNothing:
	case in.given:
		s.values = []string{in.value}
	default:
		n := 0
		for n < len(rest) && !isFlag(rest[n]) && (n == 0 || kind.arity == takesList) {
			n++
		}
		if n == 0 {
			return nil, usagef("--%s: a value is missing", s.name)
		}
		s.values, rest = rest[:n:n], rest[n:]
	}
	l.settings = append(l.settings, s)
	return rest, nil
}

func parseSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1", "yes":
		return true, nil
	case "false", "0", "no":
		return false, nil
	}
	return false, usagef("expected true or false but got %q", s)
}

// isFlag reports whether an argument begins a new flag. Negative numbers do not.
func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !strings.ContainsRune("0123456789.", rune(arg[1]))
}

// short reads vLLM's abbreviations: -tp 2, -tp=2, -O3, -O.level 3.
func (l *lexer) short(arg string, rest []string) ([]string, error) {
	if member, dotted := strings.CutPrefix(arg, "-O."); dotted {
		return l.long(shortFlags["-O"]+"."+member, rest)
	}
	name, value, hasValue := strings.Cut(arg, "=")
	if strings.HasPrefix(arg, "-O") && len(arg) > 2 && !hasValue {
		name, value, hasValue = "-O", arg[2:], true
	}
	long, ok := shortFlags[name]
	if _, known := l.kinds[long]; !ok || !known {
		l.unknown = append(l.unknown, name)
		return rest, nil
	}
	return l.value(setting{name: long}, l.kinds[long], inline{value, hasValue}, rest)
}

// merge puts the config file's settings before those of the command line, which
// win: a flag given on the command line drops what the file says of it.
func merge(file, line []setting) []setting {
	kept := slices.DeleteFunc(slices.Clone(file), func(f setting) bool {
		return slices.ContainsFunc(line, func(s setting) bool { return s.name == f.name })
	})
	return append(kept, line...)
}

// joinMembers folds dotted members into one JSON value per flag, over a value
// given whole.
func joinMembers(settings []setting) ([]setting, error) {
	isMember := func(s setting) bool { return s.path != nil }
	joined := slices.DeleteFunc(slices.Clone(settings), isMember)
	objects := map[string]map[string]any{}
	for _, s := range settings {
		if !isMember(s) {
			continue
		}
		if objects[s.name] == nil {
			object, err := wholeObject(joined, s.name)
			if err != nil {
				return nil, err
			}
			objects[s.name] = object
		}
		if err := setMember(objects[s.name], s); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(objects) {
		text, err := json.Marshal(objects[name])
		if err != nil {
			return nil, usagef("--%s: %w", name, err)
		}
		joined = append(joined, setting{name: name, values: []string{string(text)}})
	}
	return joined, nil
}

// wholeObject returns a JSON flag's value without its dotted members: the last
// that was given, or an empty object.
func wholeObject(settings []setting, name string) (map[string]any, error) {
	var object map[string]any
	for _, s := range settings {
		if s.name != name {
			continue
		}
		object = nil
		if err := json.Unmarshal([]byte(s.values[0]), &object); err != nil {
			return nil, usagef("--%s: expected a JSON object but got %q", name, s.values[0])
		}
	}
	if object == nil { // not given, or null
		object = map[string]any{}
	}
	return object, nil
}

// setMember sets one dotted member; its value is JSON if it parses as such, else
// a string.
func setMember(object map[string]any, s setting) error {
	for _, key := range s.path[:len(s.path)-1] {
		child, ok := object[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			object[key] = child
		}
		object = child
	}
	key := s.path[len(s.path)-1]
	if key == "" {
		return usagef("--%s: the member's name is missing", s.name)
	}
	var v any
	if err := json.Unmarshal([]byte(s.values[0]), &v); err != nil {
		v = s.values[0]
	}
	object[key] = v
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
