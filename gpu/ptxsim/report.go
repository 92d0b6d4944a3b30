package ptxsim

import (
	"fmt"

	"github.com/troupe-llm/troupe/gpu"
)

// ParseError says why PTX was refused.
type ParseError struct {
	Line   int
	Inst   string // the instruction as it stands in the source, if it is about one
	Reason string
}

func (e *ParseError) Error() string {
	if e.Inst == "" {
		return fmt.Sprintf("ptxsim: line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("ptxsim: line %d: %s: in %q", e.Line, e.Reason, e.Inst)
}

// Kind tells faults apart.
type Kind string

// What a kernel can do wrong.
const (
	OutOfBounds     Kind = "out of bounds"
	UseAfterFree    Kind = "use after free"
	Unwritten       Kind = "read of unwritten memory"
	Pending         Kind = "access to memory that an asynchronous copy is still writing"
	Misaligned      Kind = "misaligned access"
	RaceInBlock     Kind = "race within a block"
	RaceOfBlocks    Kind = "race between blocks"
	DivergedBarrier Kind = "divergent barrier"
	DivergedWarp    Kind = "divergent warp-wide instruction"
	TooLong         Kind = "too many instructions"
	Unsupported     Kind = "unsupported operation"
)

// code returns what a GPU would say, or the nearest to it: races it would not see.
func (k Kind) code() gpu.Code {
	switch k {
	case OutOfBounds, UseAfterFree:
		return gpu.IllegalAddress
	case Misaligned:
		return gpu.MisalignedAddress
	case TooLong:
		return gpu.LaunchTimeout
	}
	return gpu.LaunchFailed
}

// Fault is the report of a kernel's error.
type Fault struct {
	Kind   Kind
	Kernel string
	Line   int    // of the PTX
	Inst   string // the instruction, as it stands there
	Block  [3]int
	Thread int // in its block; of a warp-wide fault the first that is concerned
	Lane   int
	Detail string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s: kernel %s, block (%d,%d,%d), thread %d (lane %d), line %d, %q: %s",
		f.Kind, f.Kernel, f.Block[0], f.Block[1], f.Block[2], f.Thread, f.Lane, f.Line, f.Inst, f.Detail)
}

// error wraps the report as the driver would return it.
func (f *Fault) error(op string) *gpu.Error {
	e := gpu.NewError(op, f.Kind.code(), f.Error())
	e.Cause = f
	return e
}
