//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// beside runs f while a client asks questions, which must all be answered rightly.
func (s *server) beside(f func()) {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var asked int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		asked, err = s.probe(ctx)
	}()
	f()
	stop()
	<-done
	require.NoError(s.t, err, "the client beside them")
	require.Positive(s.t, asked)
	s.t.Logf("%d answers beside them, %d MB resident", asked, s.resident()>>20)
}

// resident returns the server's memory in bytes, VmRSS.
func (s *server) resident() int {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(s.t, err)
	_, rest, ok := strings.Cut(string(b), "VmRSS:")
	require.True(s.t, ok)
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(s.t, err)
	return kB << 10
}

// TestSlowReaders: who asks for much and reads nothing is cancelled and counted, and
// holds a bounded amount of memory until then.
func TestSlowReaders(t *testing.T) {
	const readers = 2
	s := serve(t, roomy(t), "--served-model-name", "understudy", "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	alive(t, s)
	var wires []*wire
	s.beside(func() {
		for range readers {
			w := s.dial()
			require.NoError(t, w.tcp.SetReadBuffer(4096))
			w.chat(obj{"model": "understudy", "messages": user("Go on."), "n": 4, "max_tokens": 6000, "ignore_eos": true, "temperature": 1,
				"logprobs": true, "top_logprobs": 20, "stream": true})
			require.Equal(t, http.StatusOK, w.answer().StatusCode)
			wires = append(wires, w)
		}
		s.eventually(func() bool { return sum(s.scrape(), "troupe:slow_clients_total") == readers }, "slow readers are cancelled")
		require.Less(t, s.resident(), 300<<20)
	})
	require.Less(t, sum(s.scrape(), "vllm:generation_tokens_total"), 4*6000.0*readers, "nobody generates for them any more")
	for _, w := range wires {
		require.NoError(t, w.Close())
	}
	s.eventually(func() bool { return finished(s.scrape(), "abort") == readers }, "each was counted once")
	requireIdle(t, s)
}

// TestSlowSenders: who sends a byte now and then, or stops in the middle, keeps nobody
// waiting, and is served when it is done after all.
func TestSlowSenders(t *testing.T) {
	const senders = 96
	s := serve(t, "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	alive(t, s)
	files := s.atRest(nil).fds
	request := chatText("HTTP/1.1", obj{"model": "understudy", "messages": user("What is the capital of France?"), "temperature": 0})
	head := strings.Index(request, "\r\n\r\n")
	var wires []*wire
	s.beside(func() {
		var all sync.WaitGroup
		for i := range senders {
			w := s.dial()
			wires = append(wires, w)
			if i%3 == 0 { // stops in its head or body and is never heard of again
				w.say(request[:[]int{10, head - 5, head + 4, len(request) - 1}[i/3%4]])
				continue
			}
			all.Go(func() {
				for j := range request {
					if _, err := w.Write([]byte{request[j]}); err != nil {
						return
					}
					<-time.After(4 * time.Millisecond) // what makes it slow
				}
			})
		}
		all.Wait()
		for i, w := range wires {
			if i%3 == 0 {
				continue
			}
			resp := w.answer()
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%s", b)
			require.Contains(t, content(s.parse(b), 0), "Paris")
		}
	})
	require.Less(t, s.resident(), 200<<20)
	for _, w := range wires {
		require.NoError(t, w.Close())
	}
	s.eventually(func() bool { return s.fds() <= files+2 }, "all connections are closed")
}

// TestIdleConnections: ten thousand connections that do nothing.
func TestIdleConnections(t *testing.T) {
	t.Parallel() // it takes the server's pool of goroutines twenty seconds to shrink
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	idle := int(min(10_000, limit.Max-min(limit.Max, 500)))
	s := serve(t, "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	alive(t, s)
	baseline := s.atRest(nil)
	before := s.resident()
	var wires []*wire
	s.beside(func() {
		for i := range idle {
			w := s.dial()
			wires = append(wires, w)
			if i%2 == 0 { // one that has asked something before
				w.say("GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
			}
		}
		for i := 0; i < idle; i += 2 {
			resp, err := http.ReadResponse(bufio.NewReader(wires[i]), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
		alive(t, s)
	})
	after := s.resident()
	t.Logf("%d connections (of %d files allowed): %d MB, %d MB before", idle, limit.Max, after>>20, before>>20)
	require.Less(t, after, 400<<20)
	for _, w := range wires {
		require.NoError(t, w.Close())
	}
	s.atRest(&baseline)
}
