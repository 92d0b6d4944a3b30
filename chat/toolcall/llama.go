package toolcall

// llama is {"name": ..., "parameters": ...}, several joined by "; ", optionally behind
// <|python_tag|>: Llama 3.1, 3.2 and 4 with JSON tool calls.
// https://github.com/meta-llama/llama-models/blob/main/models/llama3_1/prompt_format.md
// ("JSON based tool calling") and vLLM's tool_chat_template_llama3.1_json.jinja.
//
// Like vLLM without streaming, and unlike vLLM with it, calls are found behind text too;
// the text stays. An object without "parameters" or "arguments" is text.
var llama = frame{
	opens:    map[string][]string{"<|python_tag|>": nil},
	bare:     true,
	needArgs: true,
	quiet:    ";",
}
