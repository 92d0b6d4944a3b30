// Package toolcall finds the tool calls in generated text.
//
// A [Parser] takes text piece by piece and gives events: text of the answer, the start of
// a call with its name, pieces of its arguments, its end. It works byte by byte, so the
// events joined are the same however the text is cut, and streaming equals [Parse].
//
// What the parsers promise:
//
//   - The joined arguments of a call are what the model wrote: key order, white space and
//     escapes stay. Two things are mended, because clients parse arguments as a JSON object:
//     control characters within strings are escaped, and an object that was written as a
//     string, or null, becomes the object. XML and Python become JSON in their order.
//   - A call that is not Incomplete has valid JSON as arguments, {} if it had none.
//   - Nothing is lost: text before, between and behind calls is content, and so is what only
//     looked like a call. White space alone next to calls is dropped.
//   - The name comes once and whole; the arguments follow as they are generated. Text is held
//     back only as long as it can still become a call.
//   - Names of no known tool pass through, marked Unknown.
//   - Memory is bounded: held text by 1 MiB, nesting by 512 levels.
//
// Each of these answers a bug reported of other servers, for instance vllm-project/vllm#19056
// (streamed arguments lose characters), #28806 (empty arguments dropped), #17704 (arguments
// escaped again), #56263 and #55199 (text behind a call lost), #56658 (a quoted <tool_call>
// swallows the answer), #20028 and #17585 (Mistral's newer form), openai/openai-python#3201
// (names repeated).
//
// [Grammar] describes as plain data what an output must look like when a call is forced.
package toolcall
