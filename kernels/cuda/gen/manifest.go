package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manifest says what was compiled, with what, and what came out.
type manifest struct {
	Compiler string // first line of its version
	Flags    string
	Sources  []file
	PTX      []file
	Kernels  []kernel
}

// file is a file and the SHA-256 of its bytes.
type file struct{ Name, Sum string }

// kernel is an entry point.
type kernel struct {
	Module, Name string
	MaxThreads   string // of a block
	Params       []param
}

// param is a parameter: its name in the source and its PTX type (u64, u32, f32).
type param struct{ Name, Type string }

func addFile(files []file, path string) ([]file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return append(files, file{filepath.ToSlash(path), fmt.Sprintf("%x", sha256.Sum256(data))}), nil
}

// format returns the manifest as text, a line per item.
func (m *manifest) format() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "compiler %s\nflags %s\n", m.Compiler, m.Flags)
	for _, f := range m.Sources {
		fmt.Fprintf(&b, "source %s %s\n", f.Name, f.Sum)
	}
	for _, f := range m.PTX {
		fmt.Fprintf(&b, "ptx %s %s\n", f.Name, f.Sum)
	}
	for _, k := range m.Kernels {
		fmt.Fprintf(&b, "kernel %s %s %s", k.Module, k.Name, k.MaxThreads)
		for _, p := range k.Params {
			fmt.Fprintf(&b, " %s:%s", p.Name, p.Type)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// parseManifest reads what format wrote.
func parseManifest(text string) (*manifest, error) {
	m := &manifest{}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields := strings.Fields(rest)
		switch {
		case kind == "compiler":
			m.Compiler = rest
		case kind == "flags":
			m.Flags = rest
		case kind == "source" && len(fields) == 2:
			m.Sources = append(m.Sources, file{fields[0], fields[1]})
		case kind == "ptx" && len(fields) == 2:
			m.PTX = append(m.PTX, file{fields[0], fields[1]})
		case kind == "kernel" && len(fields) >= 3:
			k := kernel{Module: fields[0], Name: fields[1], MaxThreads: fields[2]}
			for _, f := range fields[3:] {
				name, typ, _ := strings.Cut(f, ":")
				k.Params = append(k.Params, param{name, typ})
			}
			m.Kernels = append(m.Kernels, k)
		default:
			return nil, fmt.Errorf("manifest: line %q", line)
		}
	}
	return m, nil
}

var (
	declaration = regexp.MustCompile(`__attribute__\(\(global\)\) void __attribute__\(\(launch_bounds\((\d+), 1\)\)\) (\w+)\(([^)]*)\)\s*\{`)
	entry       = regexp.MustCompile(`\.visible \.entry (\w+)\(([^)]*)\)\s*\.maxntid (\d+), 1, 1`)
	entryParam  = regexp.MustCompile(`\.param \.(\w+) `)
)

// declarations finds the kernels of a preprocessed source.
func declarations(source string) (kernels []kernel, err error) {
	for _, m := range declaration.FindAllStringSubmatch(source, -1) {
		k := kernel{Name: m[2], MaxThreads: m[1]}
		for _, p := range strings.Split(m[3], ",") {
			words := strings.Fields(p)
			typ := strings.Join(words[:len(words)-1], " ")
			kind, ok := map[string]string{"int": "u32", "u32": "u32", "float": "f32", "u64": "u64"}[typ]
			if strings.HasSuffix(typ, "*") {
				kind, ok = "u64", true
			}
			if !ok {
				return nil, fmt.Errorf("kernel %s: parameter %q has a type that launchers do not know", k.Name, p)
			}
			k.Params = append(k.Params, param{words[len(words)-1], kind})
		}
		kernels = append(kernels, k)
	}
	if len(kernels) == 0 {
		return nil, fmt.Errorf("no kernels")
	}
	return kernels, nil
}

// checkEntries compares the entry points of a module's PTX with the manifest's: names, bounds
// and the types of parameters.
func (m *manifest) checkEntries(module, ptx string) error {
	entries := entry.FindAllStringSubmatch(ptx, -1)
	found := map[string]string{}
	for _, e := range entries {
		types := []string{e[3]}
		for _, p := range entryParam.FindAllStringSubmatch(e[2], -1) {
			types = append(types, p[1])
		}
		found[e[1]] = strings.Join(types, " ")
	}
	for _, k := range m.Kernels {
		if k.Module != module {
			continue
		}
		types := []string{k.MaxThreads}
		for _, p := range k.Params {
			types = append(types, p.Type)
		}
		if want := strings.Join(types, " "); found[k.Name] != want {
			return fmt.Errorf("kernel %s has bound and parameters %q in the PTX, and %q in its source", k.Name, found[k.Name], want)
		}
		delete(found, k.Name)
	}
	for name := range found {
		return fmt.Errorf("kernel %s of module %s is not in the manifest", name, module)
	}
	return nil
}
