package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLauncherRunsInOrderToTheEnd(t *testing.T) {
	l := newLauncher()
	var order []int
	for i := range 100 {
		l.run(func() { order = append(order, i) })
	}
	l.close()
	l.close()
	require.Len(t, order, 100)
	require.IsIncreasing(t, order)
}
