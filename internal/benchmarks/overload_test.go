package benchmarks_test

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The load that the server of this benchmark can take: as many clients as it has
// seats, each with one request after another.
const (
	overloadSeats  = 16
	overloadTimes  = 20
	overloadTokens = 64
	overloadTime   = 4 * time.Second
)

// BenchmarkOverload sends the real binary 20 times the clients that it has seats
// for. Refused ones come back when Retry-After says. Goodput is the tokens per
// second of answers that were given whole; goal: 20x over 1x >= 0.9. Beside it stand
// the slowest of a hundred of /health's answers and the resident memory meanwhile.
func BenchmarkOverload(b *testing.B) {
	url, pid, stop := serveTroupe(b, buildTroupe(b),
		"--max-num-seqs", strconv.Itoa(overloadSeats), "--max-num-queued-reqs", strconv.Itoa(2*overloadSeats))
	defer stop()
	goodput(b, url, overloadSeats) // warm
	var ratios, health, resident series
	for range 3 * b.N {
		once, _ := goodput(b, url, overloadSeats)
		much, slowest := goodput(b, url, overloadTimes*overloadSeats)
		ratios, health = append(ratios, much/once), append(health, slowest)
		resident = append(resident, residentMB(b, pid))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios.median(), "goodput-20x/1x")
	b.ReportMetric(health.median(), "ms-health-p99")
	b.ReportMetric(resident.median(), "MB-resident")
}

// goodput lets clients send for a while and returns the tokens per second of whole
// answers, and the 99th percentile of /health's milliseconds.
func goodput(b *testing.B, url string, clients int) (tokensPerSecond, healthMs float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), overloadTime)
	defer cancel()
	client := &nethttp.Client{Transport: &nethttp.Transport{MaxIdleConnsPerHost: clients + 1}}
	defer client.CloseIdleConnections()
	var tokens atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for i := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				wait, err := askOnce(ctx, client, url, i*10000+n)
				switch {
				case err != nil:
					return // the time is over
				case wait > 0:
					select {
					case <-ctx.Done():
					case <-time.After(wait):
					}
				default:
					tokens.Add(overloadTokens)
				}
			}
		})
	}
	var waits []float64
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		asked := time.Now()
		if resp, err := client.Get(url + "/health"); err == nil {
			_ = resp.Body.Close()
			waits = append(waits, milliseconds(time.Since(asked)))
		}
	}
	wg.Wait()
	slices.Sort(waits)
	return float64(tokens.Load()) / time.Since(start).Seconds(), waits[len(waits)*99/100]
}

// askOnce sends one request; wait is how long to stay away if it was refused.
func askOnce(ctx context.Context, client *nethttp.Client, url string, n int) (wait time.Duration, err error) {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Tell me about number %d."}],"max_tokens":%d,"ignore_eos":true}`, n, overloadTokens)
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if resp.StatusCode == nethttp.StatusOK {
		return 0, nil
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return 0, fmt.Errorf("status %d without Retry-After", resp.StatusCode)
	}
	return time.Duration(seconds) * time.Second, nil
}
