package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

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
	maxPages            = 256       // of a list
	maxLeftOut          = 16        // tools that the log names, per list
)

// maxListAge is how old a list may be when a request comes.
const maxListAge = 10 * time.Second

// list takes the tools that a server has now.
func (s *server) list(ctx context.Context, in *session) error {
	l := listing{tools: []infer.ServerTool{}, functions: make(map[string]bool)}
	var page sdk.ListToolsParams
	for n := 0; ; n++ {
		if n == maxPages {
			return errEndless
		}
		r, err := in.ListTools(ctx, &page)
		if err != nil {
			return in.guard.explain(err)
		}
		isFull := slices.ContainsFunc(r.Tools, func(tool *sdk.Tool) bool { return !l.add(tool) })
		if page.Cursor = r.NextCursor; isFull || page.Cursor == "" {
			break
		}
	}
	s.tools.Store(&l.tools)
	s.mu.Lock()
	isNews := !slices.Equal(s.leftOut, l.leftOut)
	s.listed, s.leftOut = time.Now(), l.leftOut
	s.mu.Unlock()
	for i := 0; isNews && i < len(l.leftOut); i++ {
		s.log.LogAttrs(ctx, slog.LevelWarn, "tool left out", slog.String("server", s.label), slog.String("tool", l.leftOut[i].name), slog.String("reason", l.leftOut[i].why))
	}
	return nil
}

var errEndless = errors.New("the list of tools has no end")

// listing gathers the tools of a server.
type listing struct {
	tools     []infer.ServerTool
	functions map[string]bool // names of the tools
	size      int             // bytes of the tools
	numListed int
	leftOut   []leftOut // the first ones, and what ended the list
}

// leftOut is a tool that cannot be used.
type leftOut struct{ name, why string }

// add takes a tool, and reports whether another is looked at.
func (l *listing) add(tool *sdk.Tool) bool {
	t, why := readTool(tool)
	l.numListed++
	l.size += len(t.Description) + len(t.Schema) + len(t.Annotations)
	isEnd := true
	switch {
	case len(l.tools) == maxTools:
		why = fmt.Sprintf("a server may have %d tools", maxTools)
	case l.numListed > maxListed:
		why = fmt.Sprintf("a server may list %d tools", maxListed)
	case l.size > maxListBytes:
		why = fmt.Sprintf("the tools of a server may have %d bytes", maxListBytes)
	default:
		if isEnd = false; why == "" && l.functions[t.Function] {
			why = "another tool has the same name but for characters that models do not use"
		}
	}
	if why == "" {
		l.functions[t.Function] = true
		l.tools = append(l.tools, t)
	} else if isEnd || len(l.leftOut) < maxLeftOut {
		l.leftOut = append(l.leftOut, leftOut{bounded(tool.Name, maxToolName), why})
	}
	return !isEnd
}

// current returns the tools as they were listed last. Servers change theirs and do not
// say so outside calls; a request that finds a tool missing makes no call. So a list
// that is old is asked for again, for the requests that come later.
func (s *server) current() []infer.ServerTool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isListing && !s.isClosed && time.Since(s.listed) > maxListAge {
		s.isListing = true
		s.ending.Go(s.refresh)
	}
	return *s.tools.Load()
}

// refresh lists the tools in a session for that alone: the library keeps lists as long
// as their session.
func (s *server) refresh() {
	ctx, cancel := context.WithTimeout(s.ctx, connectTimeout)
	defer cancel()
	in, err := open(ctx, s.client, s.dialer)
	if err == nil {
		err = s.list(ctx, in)
		s.discard(in)
	}
	if err != nil && s.ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "tools could not be listed again", slog.String("server", s.label), slog.String("error", s.cause(err)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.isListing = time.Now(), false // one that failed is not tried again at once
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
