package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// mcpType is the type of an entry of tools that stands for tools of a server.
const mcpType = "mcp"

// chosenByOperator are the members of an mcp tool that would have the server talk to
// others than those it was started with.
var chosenByOperator = []string{"server_url", "connector_id", "authorization", "headers"}

// readServerTools reads an entry {type: mcp, server_label, allowed_tools}. It returns
// the functions of the server's tools, and the entry as the response repeats it.
func (r *Response) readServerTools(o *object) (list []function, repeated []byte) {
	for _, name := range chosenByOperator {
		if o.has(name) {
			o.fail(infer.CodeInvalid, name, "is not the client's to choose: whoever runs this server names tool servers with --tool-server; give the server_label of one")
		}
	}
	o.checkApproval()
	_ = o.label("server_description")
	label := o.needed("server_label")
	server := r.offeredServer(o, label)
	allowed, restricted := o.allowedTools()
	if o.err != nil {
		return nil, nil
	}
	l := listing{label: label}
	for i := range server.Tools {
		if t := &server.Tools[i]; !restricted || slices.Contains(allowed, t.Name) {
			l.tools = append(l.tools, *t)
			list = append(list, serverFunction(o, label, t))
		}
	}
	o.knowsAll(server, allowed)
	r.offer(l)
	return list, appendRepeatedServer(nil, label, o.raw("allowed_tools"))
}

func serverFunction(o *object, label string, t *infer.ServerTool) function {
	f := function{name: t.Function, parameters: t.Schema, param: strings.TrimSuffix(o.path, "."), run: serverTool{label, t.Name}}
	if t.Description != "" {
		f.description = appendString(nil, t.Description)
	}
	return f
}

// offeredServer finds a server that this one was started with.
func (r *Response) offeredServer(o *object, label string) *infer.ToolServer {
	var labels []string
	for i := range r.offered {
		if r.offered[i].Label == label {
			return &r.offered[i]
		}
		labels = append(labels, r.offered[i].Label)
	}
	switch {
	case o.err != nil:
	case labels == nil:
		o.fail(infer.CodeInvalid, "server_label", "this server has no tool servers: it was started without --tool-server")
	default:
		o.fail(infer.CodeInvalid, "server_label", "unknown: %q; use one of %s", excerpt(label), strings.Join(labels, ", "))
	}
	return &infer.ToolServer{}
}

// checkApproval accepts calls that nobody is asked about. Nobody is, if the field is
// left out: whoever runs the server has chosen the tools.
func (o *object) checkApproval() {
	raw := o.raw("require_approval")
	if raw != nil && unquoteOr(raw, "") != "never" {
		o.fail(infer.CodeNotImplemented, "require_approval", "must be never: calls are not held back for approval by this version, got %s", excerpt(string(raw)))
	}
}

// allowedTools reads a list of names, or the list of an object's tool_names.
func (o *object) allowedTools() (names []string, restricted bool) {
	raw := o.raw("allowed_tools")
	switch {
	case raw == nil:
		return nil, false
	case kind(raw) != "an object":
		return o.stringList("allowed_tools", maxTools), true
	}
	filter := parseObject(raw, o.path+"allowed_tools")
	filter.refuse("read_only")
	names = filter.stringList("tool_names", maxTools)
	restricted = filter.has("tool_names")
	o.adopt(filter)
	return names, restricted
}

// knowsAll refuses names of tools that the server does not have.
func (o *object) knowsAll(s *infer.ToolServer, names []string) {
	for _, name := range names {
		if !slices.ContainsFunc(s.Tools, func(t infer.ServerTool) bool { return t.Name == name }) {
			o.fail(infer.CodeInvalid, "allowed_tools", "the server %q has no tool %q", s.Label, excerpt(name))
			return
		}
	}
}

// offer notes which functions the server runs.
func (r *Response) offer(l listing) {
	if r.serverTools == nil {
		r.serverTools = make(map[string]serverTool)
	}
	for i := range l.tools {
		r.serverTools[l.tools[i].Function] = serverTool{l.label, l.tools[i].Name}
	}
	r.listings = append(r.listings, l)
}

func appendRepeatedServer(dst []byte, label string, allowed json.RawMessage) []byte {
	dst = appendString(append(dst, `{"type":"mcp","server_label":`...), label)
	dst = appendRawOrNull(append(dst, `,"allowed_tools":`...), allowed)
	return append(dst, `,"require_approval":"never","headers":null}`...)
}

// chosenTool reads {type: function, name} or {type: mcp, server_label, name}.
func (o *object) chosenTool(list []function) string {
	if or(o.str("type"), "") != mcpType {
		o.functionType(infer.CodeInvalid, "function or mcp")
		return o.needed("name")
	}
	run := serverTool{label: o.needed("server_label"), name: o.needed("name")}
	for i := range list {
		if list[i].run == run {
			return list[i].name
		}
	}
	o.fail(infer.CodeInvalid, "name", "the server %q offers no tool %q here", excerpt(run.label), excerpt(run.name))
	return ""
}

// addServerCall takes a call that a server ran, with its result. One that was never run
// is left out.
func (d *dialogue) addServerCall(o *object) {
	id, name, arguments := o.needed("id"), o.needed("name"), o.typed("arguments", "a string")
	_ = o.needed("server_label")
	output, problem := o.typed("output", "a string"), o.raw("error")
	switch {
	case o.err != nil:
		return
	case arguments == nil:
		o.fail(infer.CodeMalformed, "arguments", "is required: JSON as a string")
		return
	case problem != nil:
		text := infer.ToolResult{Text: unquoteOr(problem, string(problem)), IsFailed: true}
		output = appendString(nil, toolText(&text))
	case output == nil:
		return
	}
	if !json.Valid([]byte(unquote(arguments))) { // as the model wrote them; the result says so
		arguments = json.RawMessage(`"{}"`)
	}
	d.said.AddCall(id, infer.FunctionName(name), arguments)
	d.results = append(d.results, ToolMessage(id, output))
}
