package toolcall

// generic reads the shapes that models without a form of their own use: an object with a
// name and arguments (or parameters), alone, in an array, in a ``` fence or between
// <tool_call> tags. It is also the list [{"name": ..., "parameters": {...}}] that vLLM
// enforces for tool_choice "required"
// (https://docs.vllm.ai/en/stable/features/tool_calling/, "Required Function Calling").
var generic = frame{
	opens: map[string][]string{
		"<tool_call>": {"</tool_call>"},
		"```":         {"```"},
	},
	bare:     true,
	list:     true,
	needArgs: true,
	quiet:    ",;",
	info:     true,
}
