package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const adminKey = "sk-soak-admin"

// server is the process under test.
type server struct {
	url        string
	requestLog string
	cmd        *exec.Cmd
	exited     chan struct{} // closed when the process is over
	exit       error         // valid then

	mu   sync.Mutex
	tail []string // the last lines that it logged
}

// build compiles the server into dir, with the hook for requests that break it.
func build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "troupe")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "faultinject", "-o", path, "github.com/troupe-llm/troupe/cmd/troupe").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

var urlLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// start runs the server, small enough for its limits to be reached.
func start(binary, requestLog string) (*server, error) {
	s := &server{requestLog: requestLog, exited: make(chan struct{})}
	s.cmd = exec.Command(binary, "serve", "--host", "127.0.0.1", "--port", "0",
		"--data-parallel-size", "2", "--max-num-seqs", "8", "--max-num-queued-reqs", "6", "--num-gpu-blocks-override", "256",
		"--enable-fault-injection", "--step-timeout", "2", "--recovery-timeout", "60",
		"--admin-api-key", adminKey, "--api-key", userKey, "--request-log", requestLog,
		"--enable-per-request-metrics", "--disable-uvicorn-access-log", "--shutdown-timeout", "30")
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	go s.follow(stderr, found)
	select {
	case s.url = <-found:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("the server ended at its start: %w\n%s", s.exit, s.lastLines())
	case <-time.After(time.Minute):
		s.kill()
		return nil, errors.New("the server did not name its address within a minute")
	}
}

// follow reads the log to its end.
func (s *server) follow(stderr io.Reader, found chan<- string) {
	defer close(s.exited)
	for sc := bufio.NewScanner(stderr); sc.Scan(); {
		if u := urlLine.FindString(sc.Text()); u != "" {
			select {
			case found <- u:
			default:
			}
		}
		s.mu.Lock()
		s.tail = append(s.tail[max(0, len(s.tail)-49):], sc.Text())
		s.mu.Unlock()
	}
	s.exit = s.cmd.Wait()
}

func (s *server) lastLines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.tail, "\n")
}

// stop asks the server to end and expects that it does so without complaint.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the server is gone: %w\n%s", err, s.lastLines())
	}
	select {
	case <-s.exited:
	case <-time.After(time.Minute):
		return errors.New("the server did not end within a minute of SIGTERM")
	}
	if s.exit != nil {
		return fmt.Errorf("the server ended badly: %w\n%s", s.exit, s.lastLines())
	}
	return nil
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// admin calls an endpoint with the administrator's key and returns the status.
func (s *server) admin(ctx context.Context, method, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// samples are the values of /metrics by name and labels as written there.
type samples map[string]float64

// sum adds the series of a name whose labels contain each of the given texts.
func (m samples) sum(name string, labels ...string) float64 {
	total := 0.0
next:
	for k, v := range m {
		if k != name && !strings.HasPrefix(k, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(k, l) {
				continue next
			}
		}
		total += v
	}
	return total
}

func (s *server) scrape(ctx context.Context) (samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	m := samples{}
	for line := range bytes.Lines(body) {
		text := strings.TrimSpace(string(line))
		if i := strings.LastIndexByte(text, ' '); i > 0 && text[0] != '#' {
			if v, err := strconv.ParseFloat(text[i+1:], 64); err == nil {
				m[text[:i]] = v
			}
		}
	}
	return m, nil
}

// settle waits until nothing is in flight and nothing more is held than at rest,
// and returns the metrics then. What never comes to rest is returned as it is: the
// books will tell.
func (s *server) settle(ctx context.Context, atRest samples) (samples, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		m, err := s.scrape(ctx)
		if err != nil {
			return nil, fmt.Errorf("scrape: %w\n%s", err, s.lastLines())
		}
		isOver := m.sum(receivedTotal) == m.sum(finishedTotal) && m.sum(runningNow) == 0 && m.sum(waitingNow) == 0 && m.sum(blocksNow) == 0 &&
			leaked(atRest, m, goroutinesNow, spareGoroutines) == 0 && leaked(atRest, m, filesNow, spareFiles) == 0
		if isOver || time.Now().After(deadline) {
			return m, nil
		}
	}
}
