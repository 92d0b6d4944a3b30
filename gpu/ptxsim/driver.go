package ptxsim

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/troupe-llm/troupe/gpu"
)

// Options say what is simulated.
type Options struct {
	Devices int   // 0: one
	Memory  int64 // bytes of a device; 0: 256 MiB
	// Seed, if not 0, has blocks, warps and streams take turns at random.
	Seed uint64
	// MaxBranches is how many branches a launch may execute, 0: 2^32.
	MaxBranches int64
	Inject      []Injection
}

// Point is where an Injection happens.
type Point int

// The points, each counted by itself from 1 on, for the life of the driver.
const (
	OnLaunch Point = iota // kernels, those of graphs among them, as they are executed
	OnAlloc
	OnLoad // of a module
	numPoints
)

// Injection is something that goes wrong at a moment that a test chooses.
type Injection struct {
	Device int
	Point  Point
	Nth    int // from 1 on
	// Run is called first, if it is not nil; a step is slow as long as it blocks.
	Run func()
	// Code, if not 0, is the error. A sticky one takes the context along.
	Code gpu.Code
}

// Driver is a machine with simulated devices.
type Driver struct {
	opts    Options
	mu      sync.Mutex
	devices []*device
}

// New returns a driver.
func New(o Options) *Driver {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	if o.MaxBranches == 0 {
		o.MaxBranches = 1 << 32
	}
	d := &Driver{opts: o, devices: make([]*device, o.Devices)}
	for i := range d.devices {
		dev := &device{index: i, opts: &d.opts, kernels: map[string]KernelStats{}}
		if o.Seed != 0 {
			dev.rng = rand.New(rand.NewPCG(o.Seed, uint64(i)))
		}
		dev.clean()
		d.devices[i] = dev
	}
	return d
}

// Name is "ptxsim".
func (d *Driver) Name() string { return "ptxsim" }

// Version is that of the PTX that is understood: CUDA 11.8 brought 7.8.
func (d *Driver) Version() int { return 11080 }

// NumDevices returns how many devices are simulated.
func (d *Driver) NumDevices() int { return len(d.devices) }

// Open returns device i; all who open it share it.
func (d *Driver) Open(i int) (gpu.Device, error) {
	if i < 0 || i >= len(d.devices) {
		return nil, gpu.NewError("cuDeviceGet", gpu.InvalidDevice, fmt.Sprintf("device %d of %d", i, len(d.devices)))
	}
	return d.devices[i], nil
}

// KernelStats is what a kernel has cost.
type KernelStats struct {
	Launches     int64
	Blocks       int64
	Instructions int64 // each of a whole warp
}

// Stats returns what the kernels of device i have cost so far, by name.
func (d *Driver) Stats(i int) map[string]KernelStats {
	dev := d.devices[i]
	dev.exec.Lock()
	defer dev.exec.Unlock()
	out := make(map[string]KernelStats, len(dev.kernels))
	for name, s := range dev.kernels {
		out[name] = s
	}
	return out
}
