// Package anthropic turns the JSON of Anthropic's Messages API into Troupe's
// vocabulary and back.
//
// In: [ParseMessage] and [ParseCount] take a body and return an [openai.Call], or a
// request to count, or an *infer.Error that names the field, the limit and the value.
// Out: the call's writers make one message ([Body]) or its events ([Stream]), and
// [AppendError] an error. Everything here is a pure function of its arguments.
//
// # What a conversation becomes
//
// Chat templates know messages of OpenAI's form, so blocks become those. Turns of one
// role that follow each other are one message; a tool_result is a message of role tool
// where it stands; of an assistant's turn thinking becomes `reasoning`, tool_use a call.
// What is said of caching is ignored: the prefix cache needs no marks. A conversation
// that ends with the assistant's words is continued from there. Blocks that are no text
// are refused by their type and place.
//
// # What is shared
//
// How bodies are read (types, null, depth, unknown fields) is package openai's way, and
// so are its sampling fields, `seed` and `min_p` among them, which are read beside
// Anthropic's own. Prompts are rendered, limited and counted by the same code for both.
package anthropic
