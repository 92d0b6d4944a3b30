package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

const (
	maxTools     = 1024
	maxToolBytes = 64 // of a function's name, as OpenAI has it
)

// function is what a model may call.
type function struct {
	name                    string
	description, parameters json.RawMessage // nil = none
	strict                  bool
	param                   string     // the field of the parameters
	run                     serverTool // the tool that the server runs for it; zero = the client does
}

// tools reads the list of functions, each entry by its caller's way; nil if the field
// is missing.
func (o *object) tools(read func(tool *object) []function) []function {
	raw := o.typed("tools", "an array")
	var list []function
	names := make(map[string]bool)
	for i, element := range elements(raw) {
		if i == maxTools {
			o.fail(infer.CodeInvalid, "tools", "has more than %d entries", maxTools)
		}
		tool := parseObject(element, fmt.Sprintf("tools[%d]", i))
		functions := read(tool)
		if o.adopt(tool); o.err != nil {
			return nil
		}
		for _, f := range functions {
			if names[f.name] {
				o.fail(infer.CodeInvalid, "tools", "two functions have the name %q", excerpt(f.name))
				return nil
			}
			names[f.name] = true
			list = append(list, f)
		}
	}
	return list
}

// chatFunction reads {type, function: {name, …}}.
func (o *object) chatFunction() []function {
	o.functionType(infer.CodeInvalid, "function")
	raw := o.typed("function", "an object")
	if raw == nil {
		o.fail(infer.CodeMalformed, "function", "is required")
		return nil
	}
	in := parseObject(raw, o.path+"function")
	f := in.function()
	o.adopt(in)
	return []function{f}
}

// functionType checks the type of a tool; code is for one that is not known, known says
// which are.
func (o *object) functionType(code infer.Code, known string) {
	switch form := o.str("type"); {
	case form == nil:
		o.fail(infer.CodeMalformed, "type", "is required")
	case *form != "function":
		o.fail(code, "type", "%q is not supported by this version: use %s", excerpt(*form), known)
	}
}

// function reads the members of a function. They belong to the body.
func (o *object) function() function {
	f := function{
		name:        o.needed("name"),
		description: o.typed("description", "a string"),
		parameters:  o.typed("parameters", "an object"),
		strict:      o.flag("strict", false),
		param:       o.path + "parameters",
	}
	if len(f.name) > maxToolBytes {
		o.fail(infer.CodeInvalid, "name", "has %d bytes, the limit is %d", len(f.name), maxToolBytes)
	}
	if strings.ContainsFunc(f.name, infer.IsOutsideNames) {
		o.fail(infer.CodeInvalid, "name", "may have letters, digits, _ and - only, got %q", excerpt(f.name))
	}
	return f
}

// toolChoice is a tool_choice that can be followed.
type toolChoice struct {
	none, forced bool
	name         string // with forced: the function, "" = any
}

// toolChoice reads tool_choice for a list of functions. nameOf reads the name of a
// function out of an object.
func (p *Profile) toolChoice(o *object, list []function, nameOf func(choice *object) string) toolChoice {
	raw := o.raw("tool_choice")
	word := unquoteOr(raw, "")
	switch {
	case o.err != nil:
	case len(list) == 0:
		if raw != nil && word != "none" {
			o.fail(infer.CodeMalformed, "tool_choice", "only allowed with tools")
		}
		return toolChoice{none: true}
	case raw == nil || word == "auto":
		p.CheckAutoTools(o)
	case word == "none":
		return toolChoice{none: true}
	case word == "required":
		return toolChoice{forced: true}
	case kind(raw) != "an object":
		o.fail(infer.CodeMalformed, "tool_choice", "must be none, auto, required or an object, got %s", excerpt(string(raw)))
	default:
		choice := parseObject(raw, "tool_choice")
		name := nameOf(choice)
		if o.adopt(choice); o.err == nil && !hasFunction(list, name) {
			o.fail(infer.CodeInvalid, "tool_choice", "the function %q is not among the tools", excerpt(name))
		}
		return toolChoice{forced: true, name: name}
	}
	return toolChoice{}
}

// CheckAutoTools fails if the server does not let the model decide to call tools.
func (p *Profile) CheckAutoTools(o *Object) {
	if p.AutoToolChoice {
		return
	}
	missing := "--enable-auto-tool-choice and --tool-call-parser"
	if p.KnowsToolCalls {
		missing = "--enable-auto-tool-choice"
	}
	o.fail(infer.CodeInvalid, "tool_choice", `"auto" tool choice requires %s to be set`, missing)
}

func hasFunction(list []function, name string) bool {
	for i := range list {
		if list[i].name == name {
			return true
		}
	}
	return false
}

// chosenFunction reads {type, function: {name}}.
func (o *object) chosenFunction() string {
	o.functionType(infer.CodeInvalid, "function")
	raw := o.typed("function", "an object")
	if raw == nil {
		o.fail(infer.CodeMalformed, "function", "is required")
		return ""
	}
	f := parseObject(raw, o.path+"function")
	name := f.needed("name")
	o.adopt(f)
	return name
}

// use sets what the engine must know of tools, if any may be called.
func (choice toolChoice) use(o *object, c *Call, list []function) {
	single := !o.flag("parallel_tool_calls", true)
	if choice.none || o.err != nil {
		return
	}
	if choice.forced {
		if c.Request.Structured != nil && o.has(structuredField) {
			o.fail(infer.CodeInvalid, structuredField, "cannot be combined with a tool_choice that forces a call: its form is the call's")
			return
		}
		c.Request.Structured = nil // the form of an answer, and none comes
	}
	u := &infer.ToolUse{Forced: choice.forced, Name: choice.name, Single: single}
	for i := range list {
		u.Tools = append(u.Tools, infer.Tool{Name: list[i].name, Parameters: bytes.Clone(list[i].parameters), Param: list[i].param})
	}
	c.Request.Tools = u
	c.Reply.ForcedTool, c.Reply.NamedTool = choice.forced, choice.name != ""
}

// chatTools reads tools, tool_choice and parallel_tool_calls, and returns the tools
// for the template.
func (p *Profile) chatTools(o *object, c *Call) json.RawMessage {
	raw := o.typed("tools", "an array")
	if raw != nil && isEmptyArray(raw) {
		o.fail(infer.CodeMalformed, "tools", "must not be an empty list; leave the field out instead")
	}
	list := o.tools((*object).chatFunction)
	choice := p.toolChoice(o, list, (*object).chosenFunction)
	choice.use(o, c, list)
	o.refuse("functions", "function_call")
	if choice.none && p.ExcludeToolsWhenNone {
		return nil
	}
	return bytes.Clone(raw)
}
