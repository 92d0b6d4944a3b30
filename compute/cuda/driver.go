package cuda

import (
	"errors"
	"fmt"

	"github.com/troupe-llm/troupe/gpu"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// minCapability is what the kernels' PTX asks for: sm_80.
const minCapability = 8

// Check says why device i of a driver cannot be used, without loading anything.
func Check(driver gpu.Driver, i int) (err error) {
	if v := driver.Version(); v < gpu.MinVersion {
		return fmt.Errorf("compute/cuda: the driver speaks CUDA %d.%d, and at least %d.%d is needed", v/1000, v%1000/10, gpu.MinVersion/1000, gpu.MinVersion%1000/10)
	}
	if i >= driver.NumDevices() {
		return fmt.Errorf("compute/cuda: device %d is asked for, but the number of devices is %d", i, driver.NumDevices())
	}
	dev, err := driver.Open(i)
	if err != nil {
		return fmt.Errorf("compute/cuda: %s:%d: %w", driver.Name(), i, err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if p := dev.Properties(); p.Major < minCapability {
		return fmt.Errorf("compute/cuda: %s:%d (%s) has compute capability %d.%d, and at least %d.0 is needed", driver.Name(), i, p.Name, p.Major, p.Minor, minCapability)
	}
	return nil
}

// Open loads the kernels on a device of a driver. The name, as "cuda:0", is for people.
// What is returned closes dev.
func Open(dev gpu.Device, name string) (Device, error) {
	d := &driven{dev: dev, name: name}
	if err := d.bound(d.load); err != nil {
		return nil, errors.Join(fmt.Errorf("compute/cuda: %s: %w", name, err), d.Close())
	}
	return d, nil
}

// driven is a Device over a driver. Each call makes the device current on its thread.
type driven struct {
	dev     gpu.Device
	name    string
	modules []gpu.Module
	funcs   [kernels.NumKernels]gpu.Func
}

// bound calls f with the device current.
func (d *driven) bound(f func() error) error {
	if err := d.dev.Bind(); err != nil {
		return err
	}
	defer d.dev.Unbind()
	return f()
}

// load compiles all modules, so that none is compiled during a step.
func (d *driven) load() error {
	loaded := map[string]gpu.Module{}
	for i := range d.funcs {
		info := kernels.Kernel(i).Info()
		m, ok := loaded[info.Module]
		if !ok {
			text, err := kernels.PTX(info.Module)
			if err != nil {
				return err
			}
			if m, err = d.dev.LoadModule(info.Module, text); err != nil {
				return fmt.Errorf("module %s: %w", info.Module, err)
			}
			d.modules, loaded[info.Module] = append(d.modules, m), m
		}
		var err error
		if d.funcs[i], err = m.Func(info.Name); err != nil {
			return fmt.Errorf("kernel %s: %w", info.Name, err)
		}
	}
	return nil
}

// Describe implements Device.
func (d *driven) Describe() string {
	p := d.dev.Properties()
	return fmt.Sprintf("%s (%s, %.1f GiB, compute capability %d.%d)", d.name, p.Name, float64(p.TotalMemory)/(1<<30), p.Major, p.Minor)
}

// NumProcessors implements Device.
func (d *driven) NumProcessors() int { return d.dev.Properties().NumSMs }

// MemInfo implements Device.
func (d *driven) MemInfo() (free, total int64, err error) {
	err = d.bound(func() (err error) {
		free, total, err = d.dev.MemInfo()
		return err
	})
	return free, total, err
}

// Alloc implements Device.
func (d *driven) Alloc(bytes int64) (p Ptr, err error) {
	err = d.bound(func() error {
		q, err := d.dev.Alloc(bytes)
		p = Ptr(q)
		return err
	})
	return p, err
}

// Free implements Device.
func (d *driven) Free(p Ptr) error {
	return d.bound(func() error { return d.dev.Free(gpu.Ptr(p)) })
}

// Close implements Device.
func (d *driven) Close() error {
	err := d.bound(func() error {
		var errs []error
		for _, m := range d.modules {
			errs = append(errs, m.Close())
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, d.dev.Close())
}

// Reset implements Device.
func (d *driven) Reset() error { return errors.Join(d.dev.Reset(), d.dev.Close()) }

// stagingBytes is the pinned memory that a stream's writes go through.
const stagingBytes = 4 << 20

// NewStream implements Device.
func (d *driven) NewStream() (Stream, error) {
	s := &stream{d: d}
	err := d.bound(func() (err error) {
		if s.s, err = d.dev.NewStream(); err != nil {
			return err
		}
		s.staging, err = d.dev.AllocHost(stagingBytes)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// stream is a Stream over a driver's.
type stream struct {
	d       *driven
	s       gpu.Stream
	staging []byte // pinned; [0, used) may not have been copied yet
	used    int
	fetched []byte // pinned
	held    bool   // by the goroutine that called Bind
}

// Bind implements Stream.
func (s *stream) Bind() error {
	err := s.d.dev.Bind()
	s.held = err == nil
	return err
}

// Unbind implements Stream.
func (s *stream) Unbind() {
	if s.held {
		s.held = false
		s.d.dev.Unbind()
	}
}

// bound calls f with the device current, as it is already while the stream is held.
func (s *stream) bound(f func() error) error {
	if s.held {
		return f()
	}
	return s.d.bound(f)
}

// Launch implements kernels.Launcher.
func (s *stream) Launch(k kernels.Kernel, g kernels.Grid, values []uint64) error {
	if !s.held {
		if err := s.d.dev.Bind(); err != nil {
			return err
		}
		defer s.d.dev.Unbind()
	}
	return s.s.Launch(s.d.funcs[k], gpu.LaunchConfig{Grid: [3]int{g.X, g.Y, g.Z}, Block: [3]int{g.Threads, 1, 1}}, values)
}

// Write implements Stream. What does not fit into the staging memory waits for what was
// enqueued.
func (s *stream) Write(dst Ptr, src []byte) error {
	return s.bound(func() error {
		if len(src) > len(s.staging)-s.used {
			if err := s.sync(); err != nil {
				return err
			}
		}
		if len(src) > len(s.staging) {
			return s.d.dev.Upload(gpu.Ptr(dst), src)
		}
		pinned := s.staging[s.used : s.used+len(src)]
		copy(pinned, src)
		s.used = min(len(s.staging), (s.used+len(src)+63)&^63)
		return s.s.CopyToDevice(gpu.Ptr(dst), pinned)
	})
}

func (s *stream) sync() error {
	err := s.s.Sync()
	s.used = 0
	return err
}

// Fetch implements Stream.
func (s *stream) Fetch(src Ptr, n int) ([]byte, error) {
	err := s.bound(func() error {
		if err := s.reserve(n); err != nil {
			return err
		}
		if err := s.s.CopyToHost(s.fetched[:n], gpu.Ptr(src)); err != nil {
			return err
		}
		return s.sync()
	})
	if err != nil {
		return nil, err
	}
	return s.fetched[:n:n], nil
}

// reserve makes the memory of Fetch hold n bytes.
func (s *stream) reserve(n int) error {
	if n <= len(s.fetched) {
		return nil
	}
	if len(s.fetched) > 0 {
		if err := s.d.dev.FreeHost(s.fetched); err != nil {
			return err
		}
	}
	s.fetched = nil
	var err error
	s.fetched, err = s.d.dev.AllocHost(n)
	return err
}

// Sync implements Stream.
func (s *stream) Sync() error { return s.bound(s.sync) }

// Close implements Stream.
func (s *stream) Close() error {
	return s.bound(func() error {
		var errs []error
		if s.s != nil {
			errs = append(errs, s.s.Sync(), s.s.Close())
		}
		for _, pinned := range [][]byte{s.staging, s.fetched} {
			if len(pinned) > 0 {
				errs = append(errs, s.d.dev.FreeHost(pinned))
			}
		}
		s.staging, s.fetched = nil, nil
		return errors.Join(errs...)
	})
}
