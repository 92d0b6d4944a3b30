package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ListSchema is [Grammar] for [Generic] as one JSON schema, for compilers that take nothing
// else: an array of {"name": ..., "parameters": {...}}, as vLLM has it
// (vllm/tool_parsers/utils.py, _get_json_schema_from_tools). References within a tool's
// schema keep their meaning: their pointers are made to lead to where the schema stands now.
func ListSchema(tools []Tool, choice Choice, parallel bool) (json.RawMessage, error) {
	form, err := Grammar(Generic, tools, choice, parallel)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(`{"type": "array", "minItems": 1, `)
	if form.MaxCalls > 0 {
		fmt.Fprintf(&b, `"maxItems": %d, `, form.MaxCalls)
	}
	b.WriteString(`"items": {"anyOf": [`)
	for i, c := range form.Calls {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"type": "object", "properties": {"name": {"const": %s}, "parameters": `, quote(c.Name))
		b.Write(moveRefs(c.Schema, fmt.Sprintf("#/items/anyOf/%d/properties/parameters", i)))
		b.WriteString(`}, "required": ["name", "parameters"], "additionalProperties": false}`)
	}
	b.WriteString("]}}")
	return b.Bytes(), nil
}

// moveRefs puts a prefix before every pointer that a "$ref" of a valid schema holds. All
// other bytes stay.
func moveRefs(schema json.RawMessage, prefix string) []byte {
	var out []byte
	var path []json.Delim
	dec := json.NewDecoder(bytes.NewReader(schema))
	copied, isKey, ref := 0, false, false
	for {
		before := int(dec.InputOffset())
		tok, err := dec.Token()
		if err != nil { // the end: the schema was found valid before
			return append(out, schema[copied:]...)
		}
		inObject := len(path) > 0 && path[len(path)-1] == '{'
		switch t := tok.(type) {
		case json.Delim:
			ref = false
			if t == '{' || t == '[' {
				path = append(path, t)
			} else {
				path = path[:len(path)-1]
			}
			isKey = len(path) > 0 && path[len(path)-1] == '{'
			continue
		case string:
			if isKey {
				isKey, ref = false, t == "$ref"
				continue
			}
			if pointer, local := strings.CutPrefix(t, "#"); local && ref {
				out = append(out, schema[copied:before+bytes.IndexByte(schema[before:], '"')]...)
				out = append(out, quote(prefix+pointer)...)
				copied = int(dec.InputOffset())
			}
		}
		isKey, ref = inObject, false
	}
}
