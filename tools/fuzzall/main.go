package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// target is one fuzz function.
type target struct{ pkg, name string }

func main() {
	each := flag.Duration("time", 2*time.Minute, "how long to run each target")
	only := flag.String("run", "", "run only targets whose name matches this expression")
	flag.Parse()
	if err := run(*each, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
}

func run(each time.Duration, only string) error {
	filter, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	targets, err := list()
	if err != nil {
		return err
	}
	var ran, failed int
	for _, t := range targets {
		if !filter.MatchString(t.name) {
			continue
		}
		ran++
		start := time.Now()
		out, err := fuzz(t, each)
		if err != nil && !bytes.Contains(out, []byte(failingInput)) {
			// The fuzzer now and then reports the end of its own time as a failure.
			out, err = fuzz(t, each)
		}
		if err != nil {
			failed++
			fmt.Printf("FAIL %s %s\n%s\n", t.pkg, t.name, out)
			continue
		}
		fmt.Printf("ok   %-55s %-28s %5.0fs %s\n", t.pkg, t.name, time.Since(start).Seconds(), lastExecs(out))
	}
	fmt.Printf("%d passed, %d failed\n", ran-failed, failed)
	if ran == 0 {
		return fmt.Errorf("no target matches %q", only)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d targets failed", failed, ran)
	}
	return nil
}

// failingInput is what the fuzzer prints of an input that breaks the target.
const failingInput = "Failing input written to"

func fuzz(t target, each time.Duration) ([]byte, error) {
	// Minimizing interesting inputs may take longer than the fuzzing itself.
	return exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(),
		"-fuzzminimizetime", "10x", t.pkg).CombinedOutput()
}

// list asks go test for the names: it prints them before each package's "ok" line.
func list() ([]target, error) {
	out, err := exec.Command("go", "test", "-list", "^Fuzz", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("listing targets: %w", err)
	}
	var all []target
	var pending []string
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		switch {
		case len(f) == 1 && strings.HasPrefix(f[0], "Fuzz"):
			pending = append(pending, f[0])
		case len(f) >= 2 && f[0] == "ok":
			for _, name := range pending {
				all = append(all, target{f[1], name})
			}
			pending = nil
		}
	}
	return all, nil
}

var execs = regexp.MustCompile(`execs: \d+`)

// lastExecs returns the final count of executions that the fuzzer printed.
func lastExecs(out []byte) string {
	all := execs.FindAll(out, -1)
	if len(all) == 0 {
		return ""
	}
	return string(all[len(all)-1])
}
