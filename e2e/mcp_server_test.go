//go:build e2e

package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// toolServer is an MCP server of the test. Its tools do as their names say.
type toolServer struct {
	URL  string
	http *http.Server

	calls     chan string        // arguments of calls of get_weather, as they came
	hanging   chan struct{}      // has a value for each call of hang that has begun
	given     chan struct{}      // has a value for each call of hang that was given up
	handlers  sync.WaitGroup     // that run
	interrupt context.CancelFunc // ends what hangs
}

const sunny = `{"temperature":21,"condition":"sunny"}`

// weatherSchema is that of the tools, whatever they do: the embedded model knows it.
var weatherSchema = obj{
	"type": "object", "properties": obj{"city": obj{"type": "string", "maxLength": 40}}, "required": []string{"city"}, "additionalProperties": false,
}

// serveTools starts a server whose get_weather does what weather says; nil = it is sunny.
func serveTools(t *testing.T, weather mcp.ToolHandler) *toolServer {
	t.Helper()
	s := &toolServer{calls: make(chan string, 64), hanging: make(chan struct{}, 16), given: make(chan struct{}, 16)}
	if weather == nil {
		weather = says(sunny)
	}
	made := mcp.NewServer(&mcp.Implementation{Name: "almanac", Version: "1"}, nil)
	made.AddTool(&mcp.Tool{Name: "get_weather", Description: "Weather of a city", InputSchema: weatherSchema},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.calls <- string(r.Params.Arguments)
			return weather(ctx, r)
		})
	made.AddTool(&mcp.Tool{Name: "other", Description: "Nothing of use", InputSchema: obj{"type": "object"}}, says("nothing"))
	s.listen(t, "127.0.0.1:0", made)
	t.Cleanup(s.close)
	return s
}

func (s *toolServer) listen(t *testing.T, address string, made *mcp.Server) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s.interrupt = cancel
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made }, nil)
	s.http = &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }}
	s.URL = "http://" + ln.Addr().String()
	go func() { _ = s.http.Serve(ln) }()
}

// close breaks all connections.
func (s *toolServer) close() {
	s.interrupt()
	_ = s.http.Close()
}

func says(text string) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// hang waits until it is given up.
func (s *toolServer) hang(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s.hanging <- struct{}{}
	<-ctx.Done()
	s.given <- struct{}{}
	return nil, ctx.Err()
}

// withServerTools serves the embedded model with a tool server.
func withServerTools(t *testing.T, s *toolServer, flags ...string) *server {
	t.Helper()
	return serve(t, append([]string{"--enable-auto-tool-choice", "--enable-per-request-metrics", "--tool-server", s.URL + "/mcp"}, flags...)...)
}

// almanac is the entry of tools that offers the weather.
var almanac = []obj{{"type": "mcp", "server_label": "almanac", "allowed_tools": []string{"get_weather"}, "require_approval": "never"}}

func weatherIn(city string, fields obj) obj {
	return with(obj{"model": "understudy", "input": "What is the weather in " + city + "?", "temperature": 0, "max_output_tokens": 200, "tools": almanac}, fields)
}

// kinds are the types of a response's output items.
func kinds(r obj) string {
	var list []string
	for _, item := range r["output"].([]any) {
		list = append(list, item.(obj)["type"].(string))
	}
	return strings.Join(list, " ")
}
