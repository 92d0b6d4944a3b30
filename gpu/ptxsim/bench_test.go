package ptxsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// BenchmarkRows multiplies a matrix of 256 x 1024 with a vector, and tells how many
// instructions of a warp are executed in a second of the processor.
func BenchmarkRows(b *testing.B) {
	r := newRig(b, planted, ptxsim.Options{})
	rows, err := r.mod.Func("rows")
	require.NoError(b, err)
	y, w, x := r.room(256), r.floats(256*1024, index), r.floats(1024, index)
	c := gpu.LaunchConfig{Grid: [3]int{64, 1, 1}, Block: [3]int{128, 1, 1}}
	start := cpuSeconds(b)
	for b.Loop() {
		require.NoError(b, r.stream.Launch(rows, c, []uint64{uint64(y), uint64(w), uint64(x), 1024}))
		require.NoError(b, r.stream.Sync())
	}
	b.ReportMetric(float64(r.driver.Stats(0)["rows"].Instructions)/(cpuSeconds(b)-start), "instructions/cpu-s")
}

// cpuSeconds is what the process has spent in its own code.
func cpuSeconds(b *testing.B) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Sec) + float64(u.Utime.Usec)/1e6
}
