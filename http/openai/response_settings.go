package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// Bounds of what a response repeats but no model reads.
const (
	maxMetadata      = 16 // entries
	maxMetadataKey   = 64
	maxMetadataValue = 512
	maxLabel         = 512 // bytes of user and the like
)

// responseSettings are the members of a response that repeat the request.
type responseSettings struct {
	json          []byte          // the members, in order, each with a leading comma
	templateTools json.RawMessage // tools as templates expect them, nil = none
}

// responseSettings reads the fields that are repeated in the response. Those that
// say how to sample come from what was made of them.
func (o *object) responseSettings(p *Profile, c *Call) responseSettings {
	var s responseSettings
	var dst []byte
	dst = appendRawOrNull(append(dst, `,"instructions":`...), o.typed("instructions", "a string"))
	dst = appendCountOrNull(append(dst, `,"max_output_tokens":`...), c.Request.MaxTokens)
	c.Response.maxToolCalls = o.count("max_tool_calls", 1, math.MaxInt32)
	dst = appendCountOrNull(append(dst, `,"max_tool_calls":`...), c.Response.maxToolCalls)
	dst = append(append(dst, `,"metadata":`...), o.metadata()...)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = appendBool(dst, o.flag("parallel_tool_calls", true))
	dst = appendStringOrNull(append(dst, `,"previous_response_id":`...), or(o.str("previous_response_id"), ""))
	dst = appendStringOrNull(append(dst, `,"prompt_cache_key":`...), o.label("prompt_cache_key"))
	dst = appendStringOrNull(append(dst, `,"reasoning":{"effort":`...), o.effort())
	dst = appendStringOrNull(append(dst, `,"summary":null},"safety_identifier":`...), o.label("safety_identifier"))
	_ = o.str("service_tier") // there is one
	dst = appendFloat(append(dst, `,"service_tier":"default","temperature":`...), c.Request.Sampling.Temperature, 64)
	text, form := o.textSettings()
	c.Request.Structured = o.onlyForm(form, "text.format")
	c.Response.form = c.Request.Structured
	dst = append(append(dst, `,"text":`...), text...)
	var tools, choice []byte
	tools, choice, s.templateTools = p.responseTools(o, c)
	dst = append(append(dst, `,"tool_choice":`...), choice...)
	dst = append(append(dst, `,"tools":`...), tools...)
	dst = appendInt(append(dst, `,"top_logprobs":`...), max(or(o.count("top_logprobs", -1, math.MaxInt32), 0), 0))
	dst = appendFloat(append(dst, `,"top_p":`...), c.Request.Sampling.TopP, 64)
	dst = appendString(append(dst, `,"truncation":`...), o.choice("truncation", "disabled", "auto"))
	s.json = appendStringOrNull(append(dst, `,"user":`...), o.label("user"))
	return s
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

func appendCountOrNull(dst []byte, n *int) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	return appendInt(dst, *n)
}

// appendRawOrNull appends what a client wrote, nil as null.
func appendRawOrNull(dst []byte, raw json.RawMessage) []byte {
	if raw == nil {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

// choice reads a string that must be one of a few; the first is the default.
func (o *object) choice(name string, values ...string) string {
	value := or(o.str(name), values[0])
	o.oneOf(name, value, values)
	return value
}

func (o *object) oneOf(name, value string, values []string) {
	if !slices.Contains(values, value) {
		o.fail(infer.CodeInvalid, name, "unknown: %q; use one of %s", excerpt(value), strings.Join(values, ", "))
	}
}

// label reads a short string without effect.
func (o *object) label(name string) string {
	s := or(o.str(name), "")
	if len(s) > maxLabel {
		o.fail(infer.CodeInvalid, name, "has %d bytes, the limit is %d", len(s), maxLabel)
	}
	return s
}

// metadata reads a map of short strings, as OpenAI bounds it.
func (o *object) metadata() []byte {
	raw := o.typed("metadata", "an object")
	if raw == nil {
		return []byte("{}")
	}
	dst := []byte{'{'}
	n := 0
	for key, value := range members(raw) {
		switch text := unquoteOr(value, ""); {
		case kind(value) != "a string":
			o.mismatch("metadata."+excerpt(key), "a string", value)
		case n == maxMetadata:
			o.fail(infer.CodeInvalid, "metadata", "has more than %d entries", maxMetadata)
		case len(key) > maxMetadataKey:
			o.fail(infer.CodeInvalid, "metadata", "has a key of %d bytes, the limit is %d", len(key), maxMetadataKey)
		case len(text) > maxMetadataValue:
			o.fail(infer.CodeInvalid, "metadata."+key, "has %d bytes, the limit is %d", len(text), maxMetadataValue)
		}
		if o.err != nil {
			return nil
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(appendString(dst, key), ':'), value...)
	}
	return append(dst, '}')
}

const noEffort = "none"

var efforts = []string{noEffort, "minimal", "low", "medium", "high", "xhigh", "max"}

// effort reads reasoning.effort, "" if there is none. Summaries are never made.
func (o *object) effort() string {
	raw := o.typed("reasoning", "an object")
	if raw == nil {
		return ""
	}
	r := parseObject(raw, "reasoning")
	effort := r.str("effort")
	if effort != nil {
		r.oneOf("effort", *effort, efforts)
	}
	o.adopt(r)
	return or(effort, "")
}

// textSettings reads text: as it is repeated in the response, and the form that it
// asks for.
func (o *object) textSettings() (repeated []byte, form *infer.StructuredOutput) {
	format := json.RawMessage(`{"type":"text"}`)
	raw := o.typed("text", "an object")
	if raw == nil {
		return append(append([]byte(`{"format":`), format...), '}'), nil
	}
	t := parseObject(raw, "text")
	if given := t.typed("format", "an object"); given != nil {
		format = given
		form = t.format(given, "text.format", "")
	}
	dst := append([]byte(`{"format":`), format...)
	if v := t.str("verbosity"); v != nil {
		t.oneOf("verbosity", *v, []string{"low", "medium", "high"})
		dst = appendString(append(dst, `,"verbosity":`...), *v)
	}
	o.adopt(t)
	return append(dst, '}'), form
}

// responseTools reads tools and how they may be used: as both are repeated in the
// response, and the tools as chat templates expect them, with a function's members in
// an object of their own.
func (p *Profile) responseTools(o *object, c *Call) (tools, choice []byte, forTemplate json.RawMessage) {
	tools = []byte{'['}
	list := o.tools(func(tool *object) []function {
		if len(tools) > 1 {
			tools = append(tools, ',')
		}
		if or(tool.str("type"), "") == mcpType {
			functions, repeated := c.Response.readServerTools(tool)
			tools = append(tools, repeated...)
			return functions
		}
		tool.functionType(infer.CodeNotImplemented, "function, or mcp for the tools of a server named by --tool-server")
		f := tool.function()
		tools = f.appendRepeated(tools)
		return []function{f}
	})
	chosen := p.toolChoice(o, list, func(choice *object) string { return choice.chosenTool(list) })
	chosen.use(o, c, list)
	choice = []byte(`"auto"`)
	if raw := o.raw("tool_choice"); raw != nil {
		choice = bytes.Clone(raw)
	}
	for i := range list {
		if i > 0 {
			forTemplate = append(forTemplate, ',')
		}
		forTemplate = list[i].appendForTemplate(forTemplate)
	}
	if len(list) == 0 || chosen.none && p.ExcludeToolsWhenNone {
		return append(tools, ']'), choice, nil
	}
	return append(tools, ']'), choice, append(append([]byte{'['}, forTemplate...), ']')
}

func (f *function) appendRepeated(dst []byte) []byte {
	dst = appendString(append(dst, `{"type":"function","name":`...), f.name)
	dst = appendRawOrNull(append(dst, `,"description":`...), f.description)
	dst = appendRawOrNull(append(dst, `,"parameters":`...), f.parameters)
	return append(appendBool(append(dst, `,"strict":`...), f.strict), '}')
}

func (f *function) appendForTemplate(dst []byte) []byte {
	dst = appendString(append(dst, `{"type":"function","function":{"name":`...), f.name)
	if f.description != nil {
		dst = append(append(dst, `,"description":`...), f.description...)
	}
	if f.parameters != nil {
		dst = append(append(dst, `,"parameters":`...), f.parameters...)
	}
	return append(dst, "}}"...)
}
