package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLaunchesStayOnTheirThread(t *testing.T) {
	thread := newLaunchThread()
	threads := make(chan int, 400)
	for range 400 {
		thread.run(func() { threads <- unix.Gettid() })
	}
	thread.close()
	first := <-threads
	for range 399 {
		require.Equal(t, first, <-threads)
	}
	require.NotEqual(t, first, unix.Gettid())
}

func TestCloseRunsWhatIsQueued(t *testing.T) {
	thread := newLaunchThread()
	ran := false
	thread.run(func() { ran = true })
	thread.close()
	thread.close()
	require.True(t, ran)
}
