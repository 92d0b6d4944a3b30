package model

import (
	"strings"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/jsonfields"
)

// Config is the architecture of a decoder.
type Config = arch.Config

// ParseConfig reads config.json. Errors are *infer.Error with CodeInvalid that
// name the member, its value and what is possible.
func ParseConfig(b []byte) (Config, error) { return arch.Parse(parseFields("config.json", b)) }

// parseFields decodes the JSON object that a file of a model folder holds.
func parseFields(file string, b []byte) *jsonfields.Fields {
	if what := impostor(b); what != "" {
		return jsonfields.Failed(file, "is no JSON: "+what)
	}
	return jsonfields.Parse(file, b)
}

// parseDType knows torch's names.
func parseDType(s string) (compute.DType, bool) {
	for _, d := range []compute.DType{compute.F32, compute.F16, compute.BF16} {
		if d.String() == s {
			return d, true
		}
	}
	return 0, false
}

// resolveDType turns the value of an option into an element type; auto is what
// "auto" stands for.
func resolveDType(param, option string, auto compute.DType) (compute.DType, error) {
	switch option {
	case "", "auto":
		return auto, nil
	case "half":
		return compute.F16, nil
	case "float":
		return compute.F32, nil
	}
	d, ok := parseDType(option)
	if !ok {
		return 0, infer.Errorf(infer.CodeInvalid, param,
			"--%s is %q; it must be auto, float32, float16 or bfloat16", strings.ReplaceAll(param, "_", "-"), option)
	}
	return d, nil
}

// resolveKVDType is resolveDType for keys and values, which may be integers, too.
func resolveKVDType(option string, auto compute.DType) (compute.DType, error) {
	if option == compute.Int8.String() {
		return compute.Int8, nil
	}
	d, err := resolveDType("kv_cache_dtype", option, auto)
	if err != nil {
		return 0, infer.Errorf(infer.CodeInvalid, "kv_cache_dtype",
			"--kv-cache-dtype is %q; it must be auto, float32, float16, bfloat16 or int8", option)
	}
	return d, nil
}

// resolveQuantization returns the type that weights are quantised to at load, F32
// if they are not.
func resolveQuantization(option string) (compute.DType, error) {
	switch option {
	case "", "none":
		return compute.F32, nil
	case "q8_0":
		return compute.Q8_0, nil
	case "q4_0":
		return compute.Q4_0, nil
	}
	return 0, infer.Errorf(infer.CodeInvalid, "quantization", "--quantization is %q; it must be none, q8_0 or q4_0", option)
}
