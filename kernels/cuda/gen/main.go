// Command gen compiles the CUDA sources in src to PTX with clang, and writes the manifest
// and the typed launchers. It runs in kernels/cuda, by go generate.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// flags are what the sources are compiled with, beside the files. Contraction is off: a
// fused multiply-add is rounded once, and where it is formed would be the compiler's choice.
var flags = []string{
	"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc", "-std=c++17", "-O3",
	"-fno-exceptions", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "--cuda-gpu-arch=sm_80", "--cuda-feature=+ptx78",
}

func main() {
	compiler := flag.String("clang", "clang-19", "the compiler")
	flag.Parse()
	if err := run(*compiler); err != nil {
		log.Fatal(err)
	}
}

func run(compiler string) error {
	version, err := output(compiler, "--version")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(version, "\n")
	m := manifest{Compiler: first, Flags: strings.Join(flags, " ")}
	sources, err := filepath.Glob("src/*")
	if err != nil {
		return err
	}
	for _, source := range sources {
		if m.Sources, err = addFile(m.Sources, source); err != nil {
			return err
		}
		if filepath.Ext(source) != ".cu" {
			continue
		}
		if err := m.compile(compiler, source); err != nil {
			return err
		}
	}
	if err := os.WriteFile("MANIFEST", m.format(), 0o644); err != nil {
		return err
	}
	code, err := m.render()
	if err != nil {
		return err
	}
	return os.WriteFile("launch_gen.go", code, 0o644)
}

// compile compiles one source and adds its kernels.
func (m *manifest) compile(compiler, source string) error {
	target := filepath.Join("ptx", strings.TrimSuffix(filepath.Base(source), ".cu")+".ptx")
	if _, err := output(compiler, append(flags[:len(flags):len(flags)], "-S", source, "-o", target)...); err != nil {
		return err
	}
	expanded, err := output(compiler, append(flags[:len(flags):len(flags)], "-E", "-P", source)...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if m.PTX, err = addFile(m.PTX, target); err != nil {
		return err
	}
	kernels, err := declarations(expanded)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	for i := range kernels {
		kernels[i].Module = strings.TrimSuffix(filepath.Base(target), ".ptx")
	}
	m.Kernels = append(m.Kernels, kernels...)
	return m.checkEntries(kernels[0].Module, string(text))
}

func output(name string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}
