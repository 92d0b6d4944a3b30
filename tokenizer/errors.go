package tokenizer

import (
	"encoding/json"
	"errors"
	"reflect"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// Limits on what a tokenizer.json may hold; each is well above what the largest
// published files need (Gemma 3: 33 MB, 262,144 tokens, 514,906 merges).
const (
	maxFileBytes    = 128 << 20
	maxTokens       = 1 << 22 // ids are below this
	maxMerges       = 1 << 22
	maxTokenBytes   = 4096 // bytes of one vocabulary entry
	maxAddedTokens  = 1 << 16
	maxAddedBytes   = 1024 // bytes of one added token's content
	maxPatternBytes = 8192
	maxComponents   = 32 // members of one Sequence
	maxNesting      = 4  // Sequences within Sequences
	maxGrowth       = 64 // times that normalizers may lengthen a text (Llama 2: 12)
)

// invalid reports a value of tokenizer.json that is not acceptable. part is the
// path of the value, such as "model.merges[3]".
func invalid(part, format string, args ...any) *infer.Error {
	return infer.Errorf(infer.CodeInvalid, part, "tokenizer.json: "+part+": "+format, args...)
}

// unsupported reports something that other implementations know and this does not.
func unsupported(part, format string, args ...any) *infer.Error {
	return infer.Errorf(infer.CodeNotImplemented, part, "tokenizer.json: "+part+": "+format+" is not supported", args...)
}

// exceeds reports a size over its limit.
func exceeds(part, what string, value, limit int) *infer.Error {
	return infer.Errorf(infer.CodeTooLarge, part, "tokenizer.json: %s: %s is %d, the limit is %d", part, what, value, limit)
}

// decodeJSON reads b into v and names file and field when that fails.
func decodeJSON(b []byte, file, part string, v any) error {
	err := json.Unmarshal(b, v)
	if err == nil {
		return nil
	}
	var coded *infer.Error
	if errors.As(err, &coded) {
		return coded
	}
	where := file
	if part != "" {
		where += ": " + part
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return infer.Errorf(infer.CodeMalformed, part, "%s: not JSON at byte %d: %v", where, syntax.Offset, err)
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		field := join(part, typ.Field)
		return infer.Errorf(infer.CodeMalformed, field, "%s: %s must be %s, not %s", file, field, kindName(typ.Type), typ.Value)
	}
	return infer.Errorf(infer.CodeMalformed, part, "%s: %v", where, err)
}

// kindName is what JSON calls the values that t is made of.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return kindName(t.Elem())
	default:
		return "an object"
	}
}

// join returns the path of field within part.
func join(part, field string) string {
	if part == "" || field == "" {
		return part + field
	}
	return part + "." + field
}

// clip shortens s for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
