//go:build !faultinject

package main

import "github.com/troupe-llm/troupe/infer"

// withFaults is the place where tests make steps fail; see fault.go.
func withFaults(r infer.Runner) infer.Runner { return r }

// withCallFaults is the place where tests make handlers fail.
func withCallFaults(g infer.Generator) infer.Generator { return g }
