package infer

import (
	"context"
	"encoding/json"
	"strings"
)

// Toolbox runs tools for models: those that belong to whoever runs the server, not to
// its clients. All methods are safe for concurrent use.
type Toolbox interface {
	// Servers returns what can be called, in the order of configuration. What it
	// returned never changes; a later call may return something else.
	Servers() []ToolServer
	// CallTool runs a tool and returns at the latest when ctx ends. Whatever goes wrong
	// is a result too: the model is to see it, and no cause that is nobody's business.
	CallTool(ctx context.Context, call ServerCall) ToolResult
}

// ToolServer is a server with tools.
type ToolServer struct {
	Label string // what requests call it by
	Tools []ServerTool
}

// ServerTool is a tool of a server.
type ServerTool struct {
	Name        string          // at its server
	Function    string          // what the model calls it by: see FunctionName
	Description string          // "" = none
	Schema      json.RawMessage // JSON schema of its arguments, an object
	Annotations json.RawMessage // what the server says of it beside, nil = nothing
}

// IsOutsideNames reports whether a character may not be part of a function's name:
// those have letters, digits, _ and - only.
func IsOutsideNames(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		return false
	}
	return true
}

// FunctionName is a tool's name with _ in place of the characters that functions may
// not have.
func FunctionName(tool string) string {
	return strings.Map(func(c rune) rune {
		if IsOutsideNames(c) {
			return '_'
		}
		return c
	}, tool)
}

// ServerCall is a call of a tool of a server.
type ServerCall struct {
	ID           string // of the call in its conversation
	Server, Tool string
	Arguments    json.RawMessage // as the model wrote them
}

// ToolResult is what a call gave.
type ToolResult struct {
	Text     string // valid UTF-8
	IsFailed bool   // Text says what went wrong
}

// Loop tells of a request whose model may have called tools of the server: it is
// generated in turns, and the results of one turn's calls are read in the next.
type Loop struct {
	Turns []Turn // at least one
	// CallsExhausted: the model wanted more calls, or more turns, than it may have.
	CallsExhausted bool
}

// Turn is one generation of a loop, and the calls that it made.
type Turn struct {
	Usage   Usage
	Metrics *RequestMetrics // nil = not known
	Calls   []TimedCall     // that were run, in order
	ToolMs  float64         // milliseconds from the end of the generation to the last result; 0 without Calls
}

// TimedCall is a call with the time it took.
type TimedCall struct {
	ServerCall
	Ms       float64 // milliseconds until its result
	IsFailed bool
}
