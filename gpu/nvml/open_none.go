//go:build !linux || nocuda || !(amd64 || arm64)

package nvml

import (
	"errors"

	"github.com/troupe-llm/troupe/gpu"
)

// Open reports that this binary cannot load the library.
func Open(string) (Reader, error) {
	return nil, &gpu.MissingDriverError{Library: Library, Err: errors.New("this binary was built without support for it")}
}
