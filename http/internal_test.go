package http

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

const kib = 1 << 10

// bodiesOf returns a server that has memory for numBytes of bodies beyond what is free.
func bodiesOf(numBytes int64) *Server {
	s := &Server{keys: &keyring{isOpen: true}, opts: Options{ReadTimeout: time.Minute}}
	s.bodies.left.Store(numBytes)
	s.strangers.left.Store(numBytes)
	s.transfers.active = make(map[*transfer]struct{})
	return s
}

func TestUnparsedBodiesAreBounded(t *testing.T) {
	s := bodiesOf(100 * kib)
	grow := func(body []byte, size int) (*transfer, []byte, error) {
		transfer := s.newTransfer(nil, &exchange{})
		body, err := transfer.grow(body, size)
		return transfer, body, err
	}
	usual := make([]byte, 32*kib)
	held, first, err := grow(usual, 80*kib)
	require.NoError(t, err)
	require.Equal(t, 64*kib, cap(first))
	require.EqualValues(t, 100*kib, s.bodies.left.Load(), "a usual body asks for nothing")
	held.since.Store(infer.Now())
	first, err = held.grow(make([]byte, 64*kib), 80*kib)
	require.NoError(t, err)
	require.Equal(t, 80*kib, cap(first))

	_, _, err = grow(make([]byte, 64*kib), 80*kib)
	var inferErr *infer.Error
	require.ErrorAs(t, err, &inferErr, "the one that holds memory is not behind")
	require.Equal(t, infer.CodeOverloaded, inferErr.Code)
	require.Positive(t, inferErr.RetryAfter)
	_, _, err = grow(usual, 80*kib)
	require.NoError(t, err, "usual bodies come in")
	held.release()
	held.release()
	require.EqualValues(t, 100*kib, s.bodies.left.Load())
	require.Empty(t, s.transfers.active)
}

func TestStrangersHaveABudgetOfTheirOwn(t *testing.T) {
	s := bodiesOf(100 * kib)
	s.keys.isOpen = false
	stranger, friend := s.newTransfer(nil, &exchange{}), s.newTransfer(nil, &exchange{key: &key{}})
	_, err := stranger.grow(make([]byte, 64*kib), 90*kib)
	require.NoError(t, err)
	_, err = friend.grow(make([]byte, 64*kib), 90*kib)
	require.NoError(t, err)
}

func TestAFastStartGivesNoCredit(t *testing.T) {
	s := bodiesOf(1 << 30)
	server, client := net.Pipe()
	defer client.Close()
	defer server.Close()
	s.opts.ReadTimeout = 10 * time.Millisecond
	transfer := s.newTransfer(server, &exchange{})
	require.NoError(t, transfer.progress(64<<20))
	_, err := server.Read(make([]byte, 1))
	var status *statusError
	require.ErrorAs(t, transfer.failed(&fasthttp.RequestCtx{}, err), &status)
	require.Equal(t, 408, status.status)
}

func TestASlowBodyMakesRoom(t *testing.T) {
	s := bodiesOf(100 * kib)
	server, client := net.Pipe()
	defer client.Close()
	defer server.Close()
	slow := s.newTransfer(server, &exchange{})
	require.NoError(t, slow.progress(1))
	_, err := slow.grow(make([]byte, 64*kib), 90*kib)
	require.NoError(t, err)
	slow.since.Add(-int64(slow.window / 2)) // half of its time has passed

	ended := make(chan error, 2)
	go func() {
		_, err := server.Read(make([]byte, 1))
		slow.release()
		ended <- err
		ended <- err
	}()
	fast := s.newTransfer(nil, &exchange{})
	_, err = fast.grow(make([]byte, 64*kib), 90*kib)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
	require.ErrorContains(t, slow.failed(&fasthttp.RequestCtx{}, <-ended), "cut off")
}
