package main

import (
	"errors"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// openDriver opens the driver of a kind of device; there is none of the CPU.
func openDriver(d config.Device) (gpu.Driver, error) {
	switch d.Kind {
	case config.DevicePTXSim:
		devices := 1
		for _, i := range d.Indexes {
			devices = max(devices, i+1)
		}
		return ptxsim.New(ptxsim.Options{Devices: devices}), nil
	case config.DeviceCUDA:
		return nil, errors.New("this version has no driver for NVIDIA's GPUs")
	}
	return nil, nil
}
