package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// Limits of one exchange.
const (
	maxRedirects   = 5
	maxHeaderBytes = 256 << 10
	maxRetryAfter  = 2 * time.Minute
	firstBackoff   = 500 * time.Millisecond
	maxBackoff     = 15 * time.Second
)

func newTransport(o Options) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    20 * time.Second,
		ResponseHeaderTimeout:  o.StallTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    o.Parallel,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // ranges and sizes are those of the file
		// HTTP/2 would put all ranges on one connection, at the speed of one.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// request is one question, without what authenticates it.
type request struct {
	method  string
	url     *url.URL
	header  http.Header
	onlyHub bool // a redirect to another host is the answer
}

// do sends a request and follows redirects. The answer is below 400, and its
// Request says where it came from at last; anything else is an error.
func (h *Hub) do(ctx context.Context, r request) (*http.Response, error) {
	u := r.url
	for range maxRedirects + 1 {
		resp, err := h.send(ctx, r, u)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
			return resp, nil
		}
		if resp.StatusCode >= 400 {
			return nil, newStatusError(resp)
		}
		next, err := target(u, resp.Header.Get("Location"))
		if err == nil && r.onlyHub && !sameHost(next, h.base) {
			return resp, nil
		}
		_ = resp.Body.Close() // nobody wants it
		if err != nil {
			return nil, err
		}
		u = next
	}
	return nil, fmt.Errorf("%s redirects more than %d times", r.url.Host, maxRedirects)
}

func (h *Hub) send(ctx context.Context, r request, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return nil, errors.New("the address of a request is not valid")
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", h.o.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if h.o.Token != "" && sameHost(u, h.base) {
		req.Header.Set("Authorization", "Bearer "+h.o.Token)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, &netError{host: u.Host, err: plain(err)}
	}
	return resp, nil
}

// sameHost tells the hub from everybody else, its own subdomains, other ports and
// other schemes included.
func sameHost(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// target returns where a redirect leads.
func target(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	switch {
	case location == "" || err != nil:
		return nil, fmt.Errorf("%s redirects to nowhere", from.Host)
	case to.Scheme != "https" && to.Scheme != "http":
		return nil, fmt.Errorf("%s redirects to a %q address", from.Host, to.Scheme)
	case from.Scheme == "https" && to.Scheme == "http":
		return nil, fmt.Errorf("%s redirects from https to http", from.Host)
	}
	if to.Host == "" {
		return nil, fmt.Errorf("%s redirects to nowhere", from.Host)
	}
	to.User, to.Fragment = nil, ""
	return to, nil
}

// netError is a request without an answer, or with half of one.
type netError struct {
	host string
	err  error
}

func (e *netError) Error() string { return fmt.Sprintf("%s: %v", e.host, e.err) }
func (e *netError) Unwrap() error { return e.err }

// statusError is an answer that says no.
type statusError struct {
	host       string
	status     int
	code       string        // X-Error-Code: RepoNotFound, GatedRepo, …
	retryAfter time.Duration // 0 = not said
	mayPass    bool          // whatever the status is
}

func newStatusError(resp *http.Response) *statusError {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // a short body read to its end lets the connection be used again
	_ = resp.Body.Close()
	e := &statusError{host: resp.Request.URL.Host, status: resp.StatusCode, code: resp.Header.Get("X-Error-Code")}
	after := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(after, 10, 31); err == nil {
		e.retryAfter = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(after); err == nil {
		e.retryAfter = max(time.Until(t), 0)
	}
	return e
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %d %s", e.host, e.status, http.StatusText(e.status))
}

// plain takes the address out of an error: it may hold a signature.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// isTemporary reports whether the same question may be answered next time.
func isTemporary(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.mayPass || status.status == http.StatusRequestTimeout || status.status == http.StatusTooManyRequests || status.status >= 500
	}
	var network *netError
	return errors.As(err, &network)
}

// pause waits before the next attempt, the failures-th one having failed. It
// returns err if there is to be none.
func (h *Hub) pause(ctx context.Context, failures int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !isTemporary(err) || failures >= h.o.Attempts {
		return err
	}
	wait := min(firstBackoff<<min(failures-1, 10), maxBackoff)
	var status *statusError
	if errors.As(err, &status) && status.retryAfter > 0 {
		if status.retryAfter > maxRetryAfter {
			return err
		}
		wait = max(wait, status.retryAfter)
	}
	if wait >= 5*time.Second {
		h.o.Progress.Note(fmt.Sprintf("%v; the next attempt is in %v", err, wait.Round(time.Second)))
	}
	return h.o.Sleep(ctx, wait)
}

// retry does f until it succeeds, fails for good, or has failed often enough.
func (h *Hub) retry(ctx context.Context, f func() error) error {
	for failures := 1; ; failures++ {
		err := f()
		if err == nil {
			return nil
		}
		if err := h.pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

// explain words what went wrong for who gave the name, and says what to do.
func (h *Hub) explain(n Name, err error) error {
	var coded *infer.Error
	var status *statusError
	if err == nil || errors.As(err, &coded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !errors.As(err, &status) || status.host != h.base.Host {
		return &infer.Error{Code: infer.CodeUnavailable, Param: "model", Message: fmt.Sprintf("%s cannot be fetched: %v", n, err), Err: err}
	}
	page := h.base.JoinPath(n.Repo).String()
	switch {
	case status.code == "GatedRepo":
		return invalid("%s is gated: accept its conditions at %s, and set HF_TOKEN to a token of the same account", n.Repo, page)
	case status.status == http.StatusUnauthorized && h.o.Token == "":
		return invalid("%s: %v: there is no such model, or it is private or gated and needs a token in HF_TOKEN", n.Repo, status)
	case status.status == http.StatusUnauthorized:
		return invalid("%s: %v: the token is not valid, or there is no such model", n.Repo, status)
	case status.status == http.StatusForbidden:
		return invalid("%s: %v: the token may not read it; if it is gated, accept its conditions at %s", n.Repo, status, page)
	case status.code == "RevisionNotFound", status.status == http.StatusNotFound && n.Revision != "" && status.code == "":
		return invalid("%s has no revision %q, or there is no such model (%v)", n.Repo, n.revision(), status)
	case status.status == http.StatusNotFound:
		return invalid("%s: there is no such model (%v)", n.Repo, status)
	case status.status == http.StatusTooManyRequests:
		return &infer.Error{Code: infer.CodeUnavailable, Param: "model", RetryAfter: status.retryAfter,
			Message: fmt.Sprintf("%s: %v: too many requests were made; try again later, or set HF_TOKEN", n, status)}
	}
	return &infer.Error{Code: infer.CodeUnavailable, Param: "model", Message: fmt.Sprintf("%s cannot be fetched: %v", n, status)}
}
