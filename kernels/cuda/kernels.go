package cuda

import (
	"embed"
	"fmt"
)

//go:generate go run ./gen

//go:embed ptx/*.ptx
var ptx embed.FS

// Ptr is a device address.
type Ptr uint64

// Kernel is the number of an entry point.
type Kernel int

// Info describes an entry point.
type Info struct {
	Module, Name string
	MaxThreads   int // of a block
}

// Info returns a kernel's description.
func (k Kernel) Info() Info { return kernels[k] }

// NumKernels is how many kernels there are: 0 to NumKernels-1.
const NumKernels = len(kernels)

// PTX returns a module as text for the driver.
func PTX(module string) (string, error) {
	text, err := ptx.ReadFile("ptx/" + module + ".ptx")
	if err != nil {
		return "", fmt.Errorf("kernels/cuda: %w", err)
	}
	return string(text), nil
}

// Grid is how many blocks a launch has, in three dimensions, and how many threads each.
type Grid struct{ X, Y, Z, Threads int }

// Launcher starts kernels on a stream. values are the parameters in their order, each in the
// low bytes of its word; they are read before Launch returns.
type Launcher interface {
	Launch(k Kernel, g Grid, values []uint64) error
}

// Queue launches kernels one after another and keeps the first error. It belongs to one
// goroutine; its methods are generated, one per family of kernels.
type Queue struct {
	to     Launcher
	err    error
	values [maxParams]uint64
}

// NewQueue returns a queue that launches on l.
func NewQueue(l Launcher) *Queue { return &Queue{to: l} }

func (q *Queue) launch(k Kernel, g Grid, n int) {
	if q.err != nil || g.X <= 0 || g.Y <= 0 || g.Z <= 0 {
		return // an empty grid is no work; the driver would refuse it
	}
	if err := q.to.Launch(k, g, q.values[:n]); err != nil {
		q.err = fmt.Errorf("kernel %s: %w", k.Info().Name, err)
	}
}

// Err returns the first error since the last call.
func (q *Queue) Err() error {
	err := q.err
	q.err = nil
	return err
}
