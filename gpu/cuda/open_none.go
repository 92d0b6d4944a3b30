//go:build !linux || nocuda || !(amd64 || arm64)

package cuda

import (
	"errors"

	"github.com/troupe-llm/troupe/gpu"
)

// Open reports that this binary cannot load a driver.
func Open(string) (gpu.Driver, error) {
	return nil, &gpu.MissingDriverError{Library: "libcuda.so.1", Err: errors.New("this binary was built without support for it")}
}
