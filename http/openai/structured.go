package openai

import (
	"encoding/json"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

const (
	maxChoices      = 10000 // of structured_outputs.choice
	responseFormat  = "response_format"
	structuredField = "structured_outputs"
)

// structured reads what form the output must have: response_format, or vLLM's
// structured_outputs. nil = any. Whether a schema or an expression can be used
// is for its compiler to say.
func (o *object) structured() *infer.StructuredOutput {
	form := o.onlyForm(o.format(o.typed(responseFormat, "an object"), responseFormat, "json_schema"), responseFormat)
	for _, field := range []string{responseFormat, structuredField} {
		if o.err != nil && strings.HasPrefix(o.err.Param, field+".") {
			o.err.Param = field // clients look for the field they set; the message has the place in it
		}
	}
	return form
}

// onlyForm returns form, which the field name gave, or what structured_outputs
// asks for; both are one too many.
func (o *object) onlyForm(form *infer.StructuredOutput, name string) *infer.StructuredOutput {
	own := o.structuredOutputs()
	if form != nil && own != nil {
		o.fail(infer.CodeInvalid, structuredField, "cannot be combined with %s; give one", name)
		return nil
	}
	if own != nil {
		return own
	}
	return form
}

// format reads response_format, or text.format of the Responses API, whose schema
// lies beside the type: nested is the member that holds it, "" = none does.
func (o *object) format(raw json.RawMessage, name, nested string) *infer.StructuredOutput {
	if raw == nil {
		return nil
	}
	f := parseObject(raw, name)
	defer func() { o.adopt(f) }()
	form := f.str("type")
	switch {
	case f.err != nil:
	case form == nil:
		f.fail(infer.CodeMalformed, "type", "is required")
	case *form == "text":
	case *form == "json_object":
		return &infer.StructuredOutput{Param: name, Path: name, JSONObject: true}
	case *form == "json_schema":
		return f.jsonSchema(name, nested)
	case *form == "structural_tag":
		f.fail(infer.CodeNotImplemented, "type", "%q is not supported by this version", *form)
	default:
		f.fail(infer.CodeMalformed, "type", "must be text, json_object or json_schema, got %q", excerpt(*form))
	}
	return nil
}

// jsonSchema reads {name, schema, strict, description} of the field param.
func (o *object) jsonSchema(param, nested string) *infer.StructuredOutput {
	in := o
	if nested != "" {
		raw := o.typed(nested, "an object")
		if raw == nil {
			o.fail(infer.CodeMalformed, nested, "is required with type json_schema")
			return nil
		}
		in = parseObject(raw, o.path+nested)
		defer func() { o.adopt(in) }()
	}
	if name := in.str("name"); name == nil {
		in.fail(infer.CodeMalformed, "name", "is required")
	}
	in.flag("strict", false) // the schema is always enforced
	schema := in.raw("schema")
	if schema == nil {
		in.fail(infer.CodeMalformed, "schema", "is required")
		return nil
	}
	return &infer.StructuredOutput{Param: param, Path: in.path + "schema", JSONSchema: schema}
}

// structuredOutputs reads vLLM's own field.
func (o *object) structuredOutputs() *infer.StructuredOutput {
	raw := o.typed(structuredField, "an object")
	if raw == nil {
		return nil
	}
	f := parseObject(raw, structuredField)
	defer func() { o.adopt(f) }()
	if f.has("structural_tag") {
		f.fail(infer.CodeNotImplemented, "structural_tag", "not supported by this version")
	}
	var forms []*infer.StructuredOutput
	add := func(name string, s infer.StructuredOutput) {
		s.Param, s.Path = structuredField, f.path+name
		forms = append(forms, &s)
	}
	if schema := f.raw("json"); schema != nil {
		if kind(schema) == "a string" { // a schema as text
			schema = json.RawMessage(unquote(schema))
		}
		add("json", infer.StructuredOutput{JSONSchema: schema})
	}
	if f.flag("json_object", false) {
		add("json_object", infer.StructuredOutput{JSONObject: true})
	}
	if s := f.nonEmpty("regex"); s != "" {
		add("regex", infer.StructuredOutput{Regex: s})
	}
	if s := f.nonEmpty("grammar"); s != "" {
		add("grammar", infer.StructuredOutput{EBNF: s})
	}
	if f.has("choice") {
		choice := f.stringList("choice", maxChoices)
		if len(choice) == 0 {
			f.fail(infer.CodeInvalid, "choice", "must have at least one text")
		}
		add("choice", infer.StructuredOutput{Choice: choice})
	}
	if f.err != nil {
		return nil
	}
	if len(forms) != 1 {
		o.fail(infer.CodeInvalid, structuredField, "must have exactly one of json, json_object, regex, choice and grammar, got %d of them", len(forms))
		return nil
	}
	return forms[0]
}

// nonEmpty reads a string that must not be empty if it is there.
func (o *object) nonEmpty(name string) string {
	s := o.str(name)
	if s == nil {
		return ""
	}
	if *s == "" {
		o.fail(infer.CodeInvalid, name, "must not be empty")
	}
	return *s
}
