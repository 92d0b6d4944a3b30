package toolcall

// Markers returns the strings that a format needs to see although a tokenizer may
// have them as special tokens, which are no text otherwise.
func Markers(format string) []string {
	switch format {
	case "llama3_json", "llama4_json":
		return []string{"<|python_tag|>"}
	case "mistral":
		return []string{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}
	case "deepseek_v3", "deepseek_v31":
		return []string{deepseekBegin, deepseekEnd, deepseekCallBegin, deepseekCallEnd, deepseekSep}
	case "pythonic", "llama4_pythonic":
		return []string{pythonStart, pythonEnd}
	}
	return []string{"<tool_call>", "</tool_call>"}
}
