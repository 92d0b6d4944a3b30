package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The kinds of devices that --device names.
const (
	DeviceAuto   = "auto"   // the GPUs if there are any, else the CPU
	DeviceCPU    = "cpu"    //
	DeviceCUDA   = "cuda"   // NVIDIA's GPUs
	DevicePTXSim = "ptxsim" // simulated GPUs, which check what kernels do
)

// maxDeviceIndex bounds the numbers of devices.
const maxDeviceIndex = 63

// Device is what --device says.
type Device struct {
	Kind string
	// Indexes are the devices to use, in the order of the batchers; none = the first, of
	// auto and cuda all that --data-parallel-size asks for.
	Indexes []int
}

// IsGPU tells whether batchers have a device each, with memory of its own.
func (d Device) IsGPU() bool { return d.Kind == DeviceCUDA || d.Kind == DevicePTXSim }

// parseDevice reads auto, cpu, cuda or ptxsim, the last two with :i,j,… or without.
func parseDevice(s string) (Device, error) {
	kind, list, listed := strings.Cut(s, ":")
	d := Device{Kind: kind}
	switch {
	case !slices.Contains([]string{DeviceAuto, DeviceCPU, DeviceCUDA, DevicePTXSim}, kind):
		return Device{}, fmt.Errorf("--device must be auto, cpu, cuda, cuda:i,j or ptxsim, got %q", s)
	case listed && !d.IsGPU():
		return Device{}, fmt.Errorf("--device %s has no numbers, got %q", kind, s)
	case !listed:
		return d, nil
	}
	for number := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i > maxDeviceIndex || strconv.Itoa(i) != number {
			return Device{}, fmt.Errorf("--device %s: %q is not the number of a device, which is from 0 to %d", s, number, maxDeviceIndex)
		}
		if slices.Contains(d.Indexes, i) {
			return Device{}, fmt.Errorf("--device %s: device %d is there twice", s, i)
		}
		d.Indexes = append(d.Indexes, i)
	}
	return d, nil
}

// Device returns what --device says, once Check found it right.
func (s *Serve) Device() Device {
	d, _ := parseDevice(s.Scheduler.Device)
	return d
}

// checkDevice gives every device that is named a batcher.
func (s *Serve) checkDevice() error {
	d, err := parseDevice(s.Scheduler.Device)
	if err != nil {
		return err
	}
	n := &s.Scheduler.DataParallelSize
	if *n == 1 {
		*n = max(1, len(d.Indexes))
	}
	if len(d.Indexes) > 0 && *n != len(d.Indexes) {
		return fmt.Errorf("--data-parallel-size is %d, but --device %s names %d: every device has one batcher", *n, s.Scheduler.Device, len(d.Indexes))
	}
	_, err = s.memoryFraction()
	return err
}

// memoryFraction returns --gpu-memory-utilization as a number.
func (s *Serve) memoryFraction() (float64, error) {
	f, err := strconv.ParseFloat(s.GPUMemoryUtilization(), 64)
	if err != nil || !(f > 0 && f <= 1) {
		return 0, fmt.Errorf("--gpu-memory-utilization must be above 0 and at most 1, got %q", s.GPUMemoryUtilization())
	}
	return f, nil
}

// MemoryFraction returns how much of a GPU's memory may be in use, once Check found it right.
func (s *Serve) MemoryFraction() float64 {
	f, _ := s.memoryFraction()
	return f
}
