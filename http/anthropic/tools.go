package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

const (
	maxTools     = 1024
	maxToolBytes = 128 // of a tool's name, as Anthropic has it
)

// tool is one that the client runs; its parts belong to the body.
type tool struct {
	name                string
	description, schema json.RawMessage // description: nil = none
	param               string          // the field of the schema
}

// readTools reads tools and how they may be used: for the engine, nil if none may be
// called, and as templates know them, nil if the model shall not see any.
func readTools(o *openai.Object, p *openai.Profile) (use *infer.ToolUse, shown json.RawMessage) {
	list := readToolList(o)
	choice := readToolChoice(o, p, list)
	if len(list) == 0 || o.Err() != nil || choice.none && p.ExcludeToolsWhenNone {
		return nil, nil
	}
	for i := range list {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		shown = openai.AppendTool(append(shown, sep), list[i].name, list[i].description, list[i].schema)
	}
	shown = append(shown, ']')
	if choice.none {
		return nil, shown
	}
	use = &infer.ToolUse{Forced: choice.forced, Name: choice.name, Single: choice.single}
	for i := range list {
		use.Tools = append(use.Tools, infer.Tool{Name: list[i].name, Parameters: bytes.Clone(list[i].schema), Param: list[i].param})
	}
	return use, shown
}

func readToolList(o *openai.Object) (list []tool) {
	names := make(map[string]bool)
	for i, element := range openai.Elements(o.Typed("tools", "an array")) {
		if i == maxTools {
			o.Fail(infer.CodeInvalid, "tools", "has more than %d entries", maxTools)
			return nil
		}
		in := openai.OpenObject(element, fmt.Sprintf("tools[%d]", i))
		t := readTool(in)
		if o.Adopt(in); o.Err() != nil {
			return nil
		}
		if names[t.name] {
			o.Fail(infer.CodeInvalid, "tools", "two tools have the name %q", openai.Excerpt(t.name))
			return nil
		}
		names[t.name] = true
		list = append(list, t)
	}
	return list
}

func readTool(in *openai.Object) tool {
	if form := in.Str("type"); form != "" && form != "custom" {
		in.Fail(infer.CodeInvalid, "type", "%q is not supported: use custom, with an input_schema", openai.Excerpt(form))
	}
	t := tool{
		name:        in.Needed("name"),
		description: in.Typed("description", "a string"),
		schema:      in.Typed("input_schema", "an object"),
		param:       in.Path() + "input_schema",
	}
	switch {
	case len(t.name) > maxToolBytes:
		in.Fail(infer.CodeInvalid, "name", "has %d bytes, the limit is %d", len(t.name), maxToolBytes)
	case strings.ContainsFunc(t.name, infer.IsOutsideNames):
		in.Fail(infer.CodeInvalid, "name", "may have letters, digits, _ and - only, got %q", openai.Excerpt(t.name))
	case t.schema == nil:
		in.Fail(infer.CodeMalformed, "input_schema", "is required")
	}
	in.Flag("strict") // a call that is forced always keeps to its schema
	return t
}

// toolChoice is a tool_choice that can be followed.
type toolChoice struct {
	none, forced, single bool
	name                 string // with forced: the tool, "" = any
}

func readToolChoice(o *openai.Object, p *openai.Profile, list []tool) (choice toolChoice) {
	form := "auto"
	var in *openai.Object
	if raw := o.Typed("tool_choice", "an object"); raw != nil {
		in = openai.OpenObject(raw, "tool_choice")
		defer func() { o.Adopt(in) }()
		form = in.Needed("type")
		in.OneOf("type", form, []string{"auto", "any", "tool", "none"})
		choice.single = in.Flag("disable_parallel_tool_use")
	}
	switch form {
	case "none":
		choice.none = true
	case "auto":
		if len(list) > 0 {
			p.CheckAutoTools(o)
		}
	case "tool":
		choice.name = in.Needed("name")
		fallthrough
	case "any":
		choice.forced = true
		if len(list) == 0 {
			in.Fail(infer.CodeInvalid, "type", "%q needs tools", form)
		}
	}
	if choice.name != "" && !hasTool(list, choice.name) {
		in.Fail(infer.CodeInvalid, "name", "the tool %q is not among the tools", openai.Excerpt(choice.name))
	}
	return choice
}

func hasTool(list []tool, name string) bool {
	for i := range list {
		if list[i].name == name {
			return true
		}
	}
	return false
}
