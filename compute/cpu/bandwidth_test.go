package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute/cpu"
)

func TestReader(t *testing.T) {
	r, err := cpu.NewReader(3, 10<<20)
	require.NoError(t, err)
	require.Positive(t, r.Read())
	require.NoError(t, r.Close())
	_, err = cpu.NewReader(1, 1<<60)
	require.ErrorContains(t, err, "does not fit the machine's memory")
}
