package cpu_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu"
)

// Every whole line of four equal streams is read once, and nothing behind them.
func TestReadLines(t *testing.T) {
	for _, n := range []int{0, 63, 255, 256, 511, 512, 64 * 4 * 37, 64*4*37 + 200} {
		b := make([]byte, n)
		random := rand.NewChaCha8([32]byte{byte(n)})
		_, _ = random.Read(b)
		want := uint64(0)
		for i := 0; i < n/256*256; i += 64 {
			want ^= binary.NativeEndian.Uint64(b[i:])
		}
		require.Equal(t, want, cpu.ReadLines(b), "%d bytes", n)
	}
}
