package gpu

import (
	"fmt"
	"strings"
)

// Code is the number of an error of the CUDA driver API (cuda.h, CUresult). It is
// an error itself, so that errors.Is(err, gpu.OutOfMemory) asks for it.
type Code int32

// The codes that we give or decide upon. Others come through by number.
const (
	InvalidValue         Code = 1
	OutOfMemory          Code = 2
	NotInitialized       Code = 3
	Deinitialized        Code = 4
	StubLibrary          Code = 34
	NoDevice             Code = 100
	InvalidDevice        Code = 101
	InvalidImage         Code = 200
	InvalidContext       Code = 201
	NoBinaryForGPU       Code = 209
	ECCUncorrectable     Code = 214
	InvalidPTX           Code = 218
	NVLinkUncorrectable  Code = 220
	JITCompilerNotFound  Code = 221
	UnsupportedPTX       Code = 222
	InvalidHandle        Code = 400
	NotFound             Code = 500
	NotReady             Code = 600
	IllegalAddress       Code = 700
	LaunchOutOfResources Code = 701
	LaunchTimeout        Code = 702
	ContextDestroyed     Code = 709
	Assert               Code = 710
	HardwareStackError   Code = 714
	IllegalInstruction   Code = 715
	MisalignedAddress    Code = 716
	InvalidAddressSpace  Code = 717
	InvalidPC            Code = 718
	LaunchFailed         Code = 719
	TensorMemoryLeak     Code = 721
	SystemDriverMismatch Code = 803
	CaptureUnsupported   Code = 900
	CaptureInvalidated   Code = 901
	CaptureIsolation     Code = 905
	Unknown              Code = 999
)

// texts are CUDA's names, without CUDA_ERROR_, and its explanations, as
// cuGetErrorName and cuGetErrorString return them.
var texts = map[Code][2]string{
	InvalidValue:         {"INVALID_VALUE", "invalid argument"},
	OutOfMemory:          {"OUT_OF_MEMORY", "out of memory"},
	NotInitialized:       {"NOT_INITIALIZED", "initialization error"},
	Deinitialized:        {"DEINITIALIZED", "driver shutting down"},
	StubLibrary:          {"STUB_LIBRARY", "CUDA driver is a stub library"},
	NoDevice:             {"NO_DEVICE", "no CUDA-capable device is detected"},
	InvalidDevice:        {"INVALID_DEVICE", "invalid device ordinal"},
	InvalidImage:         {"INVALID_IMAGE", "device kernel image is invalid"},
	InvalidContext:       {"INVALID_CONTEXT", "invalid device context"},
	NoBinaryForGPU:       {"NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	ECCUncorrectable:     {"ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	InvalidPTX:           {"INVALID_PTX", "a PTX JIT compilation failed"},
	NVLinkUncorrectable:  {"NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution"},
	JITCompilerNotFound:  {"JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
	UnsupportedPTX:       {"UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	InvalidHandle:        {"INVALID_HANDLE", "invalid resource handle"},
	NotFound:             {"NOT_FOUND", "named symbol not found"},
	NotReady:             {"NOT_READY", "device not ready"},
	IllegalAddress:       {"ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	LaunchOutOfResources: {"LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	LaunchTimeout:        {"LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	ContextDestroyed:     {"CONTEXT_IS_DESTROYED", "context is destroyed"},
	Assert:               {"ASSERT", "device-side assert triggered"},
	HardwareStackError:   {"HARDWARE_STACK_ERROR", "hardware stack error"},
	IllegalInstruction:   {"ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	MisalignedAddress:    {"MISALIGNED_ADDRESS", "misaligned address"},
	InvalidAddressSpace:  {"INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"},
	InvalidPC:            {"INVALID_PC", "invalid program counter"},
	LaunchFailed:         {"LAUNCH_FAILED", "unspecified launch failure"},
	TensorMemoryLeak:     {"TENSOR_MEMORY_LEAK", "a kernel ended with tensor memory allocated"},
	SystemDriverMismatch: {"SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	CaptureUnsupported:   {"STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	CaptureInvalidated:   {"STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	CaptureIsolation:     {"STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
	Unknown:              {"UNKNOWN", "unknown error"},
}

// Name returns CUDA's name, as CUDA_ERROR_OUT_OF_MEMORY.
func (c Code) Name() string {
	if t, ok := texts[c]; ok {
		return "CUDA_ERROR_" + t[0]
	}
	return fmt.Sprintf("CUDA error %d", int32(c))
}

// Text returns CUDA's explanation, if it is one of ours.
func (c Code) Text() string { return texts[c][1] }

// Error returns name and text.
func (c Code) Error() string { return strings.TrimSuffix(c.Name()+": "+c.Text(), ": ") }

// Sticky tells whether the error takes the context with it: every later call
// fails with it until the device is reset.
func (c Code) Sticky() bool {
	switch c {
	case ECCUncorrectable, NVLinkUncorrectable, IllegalAddress, LaunchTimeout, ContextDestroyed, TensorMemoryLeak, Unknown:
		return true
	}
	return c >= Assert && c <= LaunchFailed && c != 711 && c != 712 && c != 713
}

// Error is a refusal of the driver.
type Error struct {
	Op     string // what was called, as "cuMemAlloc_v2"
	Code   Code
	Name   string // CUDA's name, from the driver if our table has none
	Text   string // CUDA's explanation, likewise
	Detail string // the compiler's log, the report of a checked access, or what was asked for
	Cause  error  // the same in a typed form, if there is one
}

// NewError returns an error with the names of our table.
func NewError(op string, c Code, detail string) *Error {
	return &Error{Op: op, Code: c, Name: c.Name(), Text: c.Text(), Detail: detail}
}

func (e *Error) Error() string {
	s := fmt.Sprintf("gpu: %s: %s", e.Op, e.Name)
	if e.Text != "" {
		s += " (" + e.Text + ")"
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Sticky tells whether the context is lost.
func (e *Error) Sticky() bool { return e.Code.Sticky() }

// Unwrap has errors.Is find the code and errors.As the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Cause}
}

// MissingDriverError says that there is no driver library that could be loaded.
type MissingDriverError struct {
	Library string // the name that was looked for
	Err     error
}

func (e *MissingDriverError) Error() string {
	return fmt.Sprintf("gpu: there is no driver: %s cannot be loaded: %v", e.Library, e.Err)
}

func (e *MissingDriverError) Unwrap() error { return e.Err }

// OldDriverError says that the driver library lacks what we need.
type OldDriverError struct {
	Library    string
	Have, Need int    // API versions, 1000*major + 10*minor; Have is 0 if it could not be asked
	Symbol     string // the function that is missing, if one is
}

func (e *OldDriverError) Error() string {
	s := fmt.Sprintf("gpu: the driver %s is too old", e.Library)
	if e.Have != 0 {
		s += fmt.Sprintf(": it speaks CUDA %d.%d", e.Have/1000, e.Have%1000/10)
	}
	if e.Symbol != "" {
		s += ": it has no function " + e.Symbol
	}
	return s + fmt.Sprintf(" (at least CUDA %d.%d is needed)", e.Need/1000, e.Need%1000/10)
}
