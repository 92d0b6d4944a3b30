//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/troupe-llm/troupe/gpu"
)

// The numbers of CUdevice_attribute that are asked for.
const (
	attrMaxThreads    = 1
	attrShared        = 8
	attrWarpSize      = 10
	attrNumSMs        = 16
	attrMemoryClock   = 36
	attrMemoryBus     = 37
	attrL2            = 38
	attrMajor         = 75
	attrMinor         = 76
	attrSharedOptIn   = 97
	maxDeviceNameSize = 256
)

// describe returns device i, without a context yet.
func (d *driver) describe(i int) (*device, error) {
	dev := &device{lib: d}
	if err := d.call(cuDeviceGet, uintptr(unsafe.Pointer(&dev.handle)), uintptr(i)); err != nil {
		return nil, err
	}
	p := &dev.props
	p.Index = i
	for attr, to := range map[int]*int{
		attrMaxThreads: &p.MaxThreads, attrShared: &p.SharedPerBlock, attrSharedOptIn: &p.SharedPerBlockMax, attrWarpSize: &p.WarpSize,
		attrNumSMs: &p.NumSMs, attrL2: &p.L2Bytes, attrMajor: &p.Major, attrMinor: &p.Minor,
		attrMemoryClock: &p.MemoryClockKHz, attrMemoryBus: &p.MemoryBusBits,
	} {
		var v int32
		err := d.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(attr), uintptr(dev.handle))
		if err == nil {
			*to = int(v)
		} else if attr != attrMemoryClock && attr != attrMemoryBus { // a driver may keep these to itself
			return nil, err
		}
	}
	var total uintptr
	if err := d.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&total)), uintptr(dev.handle)); err != nil {
		return nil, err
	}
	p.TotalMemory = int64(total)
	return dev, d.identify(dev)
}

// identify asks for a device's names.
func (d *driver) identify(dev *device) error {
	var text [maxDeviceNameSize]byte
	if err := d.call(cuDeviceGetName, uintptr(unsafe.Pointer(&text)), uintptr(len(text)), uintptr(dev.handle)); err != nil {
		return err
	}
	dev.props.Name = cString(text[:])
	text = [maxDeviceNameSize]byte{}
	if err := d.call(cuDeviceGetPCIBusID, uintptr(unsafe.Pointer(&text)), uintptr(len(text)), uintptr(dev.handle)); err != nil {
		return err
	}
	dev.props.PCIBusID = cString(text[:])
	var u [16]byte
	if err := d.call(cuDeviceGetUUID, uintptr(unsafe.Pointer(&u)), uintptr(dev.handle)); err != nil {
		return err
	}
	dev.props.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	return nil
}

// cString returns what stands before the first zero.
func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// The numbers of CUfunction_attribute that are asked for.
const (
	funcMaxThreads = 0
	funcShared     = 1
	funcLocal      = 3
	funcRegisters  = 4
	funcMaxDynamic = 8
)

// kernel is a Func.
type kernel struct {
	dev    *device
	life   int
	handle uintptr
	info   gpu.FuncInfo
}

func (k *kernel) Info() gpu.FuncInfo { return k.info }

func (k *kernel) SetMaxShared(n int) error {
	if err := k.dev.valid(cuFuncSetAttribute, k.life); err != nil {
		return err
	}
	return k.dev.lib.call(cuFuncSetAttribute, k.handle, funcMaxDynamic, uintptr(n))
}
