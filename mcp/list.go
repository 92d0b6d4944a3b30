package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-llm/troupe/infer"
)

// What is taken of a server's tools. A tool beyond these bounds is left out, and the
// log says so: it would take the place of a conversation.
const (
	maxTools            = 128       // of one server
	maxListed           = 1024      // tools that are looked at, those left out included
	maxToolName         = 64        // bytes, as functions have them
	maxDescriptionBytes = 4 << 10   // the rest is cut
	maxSchemaBytes      = 16 << 10  // of a tool
	maxAnnotationBytes  = 2 << 10   // more is left out
	maxListBytes        = 256 << 10 // of all tools of a server
)

// list takes the tools that a server has now.
func (s *server) list(ctx context.Context, in *session) error {
	tools := []infer.ServerTool{}
	functions := make(map[string]bool)
	size, numListed := 0, 0
	leftOut := func(name, why string) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "tool left out", slog.String("server", s.label), slog.String("tool", bounded(name, maxToolName)), slog.String("reason", why))
	}
	for tool, err := range in.Tools(ctx, nil) {
		if err != nil {
			return in.guard.explain(err)
		}
		if len(tools) == maxTools {
			leftOut(tool.Name, fmt.Sprintf("a server may have %d tools", maxTools))
			break
		}
		if numListed++; numListed > maxListed {
			leftOut(tool.Name, fmt.Sprintf("a server may list %d tools", maxListed))
			break
		}
		t, why := readTool(tool)
		switch size += len(t.Description) + len(t.Schema) + len(t.Annotations); {
		case why != "":
			leftOut(tool.Name, why)
			continue
		case functions[t.Function]:
			leftOut(tool.Name, "another tool has the same name but for characters that models do not use")
			continue
		case size > maxListBytes:
			leftOut(tool.Name, fmt.Sprintf("the tools of a server may have %d bytes", maxListBytes))
			s.tools.Store(&tools)
			return nil
		}
		functions[t.Function] = true
		tools = append(tools, t)
	}
	s.tools.Store(&tools)
	return nil
}

// readTool checks a tool; why says why it cannot be used, "" = it can.
func readTool(tool *sdk.Tool) (t infer.ServerTool, why string) {
	schema, err := json.Marshal(tool.InputSchema)
	switch {
	case tool.Name == "" || len(tool.Name) > maxToolName:
		return t, fmt.Sprintf("its name must have 1 to %d bytes", maxToolName)
	case err != nil || len(schema) == 0 || schema[0] != '{':
		return t, "its schema is no object"
	case len(schema) > maxSchemaBytes:
		return t, fmt.Sprintf("its schema has %d bytes, the limit is %d", len(schema), maxSchemaBytes)
	}
	t = infer.ServerTool{Name: tool.Name, Function: infer.FunctionName(tool.Name), Description: bounded(tool.Description, maxDescriptionBytes), Schema: schema}
	if tool.Annotations != nil {
		if raw, err := json.Marshal(tool.Annotations); err == nil && len(raw) <= maxAnnotationBytes {
			t.Annotations = raw
		}
	}
	return t, ""
}
