package toolcall

// mistral is either [TOOL_CALLS] [{"name": ..., "arguments": ...}, ...], up to tokenizer v7,
// or [TOOL_CALLS]name{...} for each call, from v11 on, where [CALL_ID] and an id, and
// [ARGS], may stand before the brace. The text says which one it is.
// https://docs.mistral.ai/capabilities/function_calling/ and
// https://github.com/mistralai/mistral-common (tokens/tokenizers/instruct.py).
//
// An id in the text is passed over; [NewID] makes one.
var mistral = frame{
	opens: map[string][]string{"[TOOL_CALLS]": nil},
	list:  true,
	header: header{
		{name: true},
		{lit: "[CALL_ID]", optional: true},
		{optional: true},
		{lit: "[ARGS]", optional: true},
	},
}
