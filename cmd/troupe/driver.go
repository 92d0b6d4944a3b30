package main

import (
	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/cuda"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// openDriver opens the driver of a kind of device; there is none of the CPU.
func openDriver(d config.Device, getenv func(string) string) (gpu.Driver, error) {
	switch d.Kind {
	case config.DeviceCPU:
		return nil, nil
	case config.DevicePTXSim:
		devices := 1
		for _, i := range d.Indexes {
			devices = max(devices, i+1)
		}
		return ptxsim.New(withDeviceFault(ptxsim.Options{Devices: devices}, getenv)), nil
	}
	return cuda.Open("")
}
