package toolcall

import (
	"encoding/json"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// Choice is a tool_choice that forces a call.
type Choice struct {
	// Name is the only function that may be called, "" for any ("required").
	Name string
}

// Form is what an output must look like so that it is calls and nothing else:
//
//	Begin call (Separator call)* End
//
// Such an output has no content: what is left as content of one that was cut is the start
// of a call. It is plain data for a grammar compiler. A grammar of literals and schemas follows
// directly; arguments may have any white space that JSON allows.
type Form struct {
	// Format names the parser that reads such an output.
	Format string
	// Begin, Separator and End are literal text, often empty.
	Begin, Separator, End string
	// Calls are the alternatives for each call, at least one.
	Calls []CallForm
	// MaxCalls is the largest number of calls, 0 for no limit. The smallest is 1.
	MaxCalls int
}

// CallForm is one call: Prefix, a JSON value that Schema allows, Suffix. The schema stands
// alone, so that a $ref to its root means what the client meant.
type CallForm struct {
	Name           string
	Prefix, Suffix string
	Schema         json.RawMessage
}

// noParameters is the schema of a tool that declares none; vLLM takes the same.
const noParameters = `{"type": "object", "properties": {}}`

// wire is how a format writes calls. Prefix holds NAME where the function's name goes.
type wire struct {
	begin, prefix, suffix, separator, end string
	// plain: the name stands there as it is, not as the inside of a JSON string.
	plain bool
}

var wires = map[string]wire{
	"hermes": {
		prefix: "<tool_call>\n{\"name\": \"NAME\", \"arguments\": ", suffix: "}\n</tool_call>", separator: "\n",
	},
	"llama3_json": llamaWire,
	"llama4_json": llamaWire,
	// The array is what models of both tokenizer generations know from their training.
	"mistral": {
		begin: "[TOOL_CALLS] [", prefix: "{\"name\": \"NAME\", \"arguments\": ", suffix: "}", separator: ", ", end: "]",
	},
	"deepseek_v3": {
		begin: deepseekBegin, separator: "\n", end: deepseekEnd, plain: true,
		prefix: deepseekCallBegin + "function" + deepseekSep + "NAME\n```json\n", suffix: "\n```" + deepseekCallEnd,
	},
	"deepseek_v31": {
		begin: deepseekBegin, end: deepseekEnd, plain: true,
		prefix: deepseekCallBegin + "NAME" + deepseekSep, suffix: deepseekCallEnd,
	},
	// vllm/tool_parsers/utils.py, _get_json_schema_from_tools.
	Generic: {
		begin: "[", prefix: "{\"name\": \"NAME\", \"parameters\": ", suffix: "}", separator: ", ", end: "]",
	},
}

var llamaWire = wire{prefix: "{\"name\": \"NAME\", \"parameters\": ", suffix: "}", separator: "; "}

// Enforceable reports whether [Grammar] can force calls in a format.
func Enforceable(format string) bool {
	_, ok := wires[format]
	return ok
}

// Grammar returns the form that forces the choice in a format. Formats whose calls hold no
// JSON (pythonic, qwen3_xml and their kin) can't be forced: the error has
// infer.CodeNotImplemented, and the form of [Generic] takes their place, which is the list
// of JSON objects that vLLM forces for every format. The other errors are the client's.
func Grammar(format string, tools []Tool, choice Choice, parallel bool) (Form, error) {
	if _, err := lookup(format); err != nil {
		return Form{}, err
	}
	if err := validate(tools); err != nil {
		return Form{}, err
	}
	w, ok := wires[format]
	if !ok {
		return Form{}, infer.Errorf(infer.CodeNotImplemented, "tool_choice",
			"calls in the format %s can't be enforced; enforce those of %s and read them with its parser", format, Generic)
	}
	f := Form{Format: format, Begin: w.begin, Separator: w.separator, End: w.end}
	if choice.Name != "" || !parallel {
		f.MaxCalls = 1
	}
	for _, t := range tools {
		if choice.Name != "" && choice.Name != t.Name {
			continue
		}
		call, err := w.call(t)
		if err != nil {
			return Form{}, err
		}
		f.Calls = append(f.Calls, call)
	}
	switch {
	case len(tools) == 0:
		return Form{}, infer.Errorf(infer.CodeInvalid, "tool_choice", "a tool call is asked for, but there are no tools")
	case len(f.Calls) == 0:
		return Form{}, infer.Errorf(infer.CodeInvalid, "tool_choice", "the function %q is not among the tools", choice.Name)
	}
	return f, nil
}

func (w wire) call(t Tool) (CallForm, error) {
	quoted := quote(t.Name)
	name := string(quoted[1 : len(quoted)-1])
	if w.plain {
		if i := strings.IndexFunc(t.Name, func(r rune) bool { return r >= 0x80 || !isWord(byte(r)) }); i >= 0 {
			return CallForm{}, infer.Errorf(infer.CodeInvalid, "tools", "the name %q has a character that this model's calls can't hold", t.Name)
		}
		name = t.Name
	}
	schema := t.Parameters
	if s := strings.TrimSpace(string(schema)); s == "" || s == "null" {
		schema = json.RawMessage(noParameters)
	}
	return CallForm{Name: t.Name, Prefix: strings.ReplaceAll(w.prefix, "NAME", name), Suffix: w.suffix, Schema: schema}, nil
}
