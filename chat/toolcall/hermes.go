package toolcall

// hermes is <tool_call>{"name": ..., "arguments": ...}</tool_call>, once per call: Hermes 2
// Pro and 3, Qwen 2.5 and 3.
// https://github.com/NousResearch/Hermes-Function-Calling ("Prompt Format for Function
// Calling"), https://qwen.readthedocs.io/en/latest/framework/function_call.html.
//
// Taken as well: the keys in either order, a missing end tag, several objects in one pair
// of tags, a brace too many, text behind the calls.
var hermes = frame{opens: map[string][]string{"<tool_call>": {"</tool_call>"}}}
