package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-llm/troupe/infer"
)

const (
	// MaxServers is the most servers that one toolbox has.
	MaxServers = 16
	// connectTimeout bounds the opening of a session and the listing of its tools.
	connectTimeout = 10 * time.Second
	// maxConcurrent is how many calls of one server run at a time; more wait, within
	// their time.
	maxConcurrent = 16
)

// Config says which servers there are.
type Config struct {
	Targets     []Target
	CallTimeout time.Duration // of one call, the wait for its turn included; > 0
	Version     string        // of this program, for the servers
	Logger      *slog.Logger
}

// Toolbox is the tools of all servers.
type Toolbox struct {
	callTimeout time.Duration
	servers     []*server
}

var _ infer.Toolbox = (*Toolbox)(nil)

// Connect opens a session with every server and lists its tools. It fails if a server
// cannot be reached: a wrong address is better known at once than at the first call.
// The toolbox must be closed.
func Connect(ctx context.Context, c Config) (*Toolbox, error) {
	return connect(ctx, c, func(t Target) dialer { return dialHTTP(t.URL) })
}

func connect(ctx context.Context, c Config, dialerOf func(Target) dialer) (_ *Toolbox, err error) {
	if len(c.Targets) > MaxServers {
		return nil, fmt.Errorf("%d servers are too many, the limit is %d", len(c.Targets), MaxServers)
	}
	b := &Toolbox{callTimeout: c.CallTimeout}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	for _, t := range c.Targets {
		client := sdk.NewClient(&sdk.Implementation{Name: "troupe", Version: c.Version}, &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		})
		b.servers = append(b.servers, newServer(t, client, dialerOf(t), c.Logger))
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// start starts all servers beside each other: those that hang are waited for once, not
// one after the other.
func (b *Toolbox) start(ctx context.Context) error {
	errs := make([]error, len(b.servers))
	var starting sync.WaitGroup
	for i, s := range b.servers {
		starting.Go(func() { errs[i] = s.start(ctx) })
	}
	starting.Wait()
	labels := make(map[string]bool)
	for i, s := range b.servers {
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", s.target.shown(), errs[i])
		}
		if labels[s.label] {
			return fmt.Errorf("%s: another server has the label %q too: choose one with LABEL=URL", s.target.shown(), s.label)
		}
		labels[s.label] = true
	}
	return nil
}

// Servers implements infer.Toolbox.
func (b *Toolbox) Servers() []infer.ToolServer {
	list := make([]infer.ToolServer, len(b.servers))
	for i, s := range b.servers {
		list[i] = infer.ToolServer{Label: s.label, Tools: s.current()}
	}
	return list
}

// Labels returns the labels of all servers, in the order of configuration.
func (b *Toolbox) Labels() []string {
	var labels []string
	for _, s := range b.servers {
		labels = append(labels, s.label)
	}
	return labels
}

// CallTool implements infer.Toolbox.
func (b *Toolbox) CallTool(ctx context.Context, call infer.ServerCall) infer.ToolResult {
	for _, s := range b.servers {
		if s.label == call.Server {
			ctx, cancel := context.WithTimeout(ctx, b.callTimeout)
			defer cancel()
			return s.callTool(ctx, call)
		}
	}
	return failed("There is no server %q.", call.Server)
}

// Close ends all sessions. Calls that still run fail.
func (b *Toolbox) Close() error {
	for _, s := range b.servers {
		s.close()
	}
	return nil
}

func failed(format string, args ...any) infer.ToolResult {
	return infer.ToolResult{Text: fmt.Sprintf(format, args...), IsFailed: true}
}
