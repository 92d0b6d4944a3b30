//go:build !faultinject

package main

import (
	"github.com/troupe-llm/troupe/gpu/ptxsim"
	"github.com/troupe-llm/troupe/infer"
)

// withFaults is the place where tests make steps fail; see fault.go.
func withFaults(r infer.Runner) infer.Runner { return r }

// withCallFaults is the place where tests make handlers fail.
func withCallFaults(g infer.Generator) infer.Generator { return g }

// withDeviceFault is the place where tests make simulated devices fail.
func withDeviceFault(o ptxsim.Options, _ func(string) string) ptxsim.Options { return o }
