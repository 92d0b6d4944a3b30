// Package reasoning splits generated text into what a model thinks and what it answers.
//
// A [Parser] takes text piece by piece and gives pieces that are either. It works byte
// by byte: the same text gives the same two strings however it is cut, and streaming
// equals [Parse] on the whole. White space stays where the model wrote it; the markers
// themselves go to neither part. Text is held back only while it can still become a
// marker. Memory is bounded by the longest marker and a run of white space.
//
// The names are those of vLLM's --reasoning-parser
// (https://docs.vllm.ai/en/stable/features/reasoning_outputs/). Four rules go beyond it:
//
//   - Where the prompt ends decides first. A template that opened the block makes the
//     output start inside it, one that closed it makes all of it an answer, whatever the
//     switch in chat_template_kwargs was called (vllm-project/vllm#53284).
//   - Only the first block counts, and except for mistral only at the start of the output:
//     a marker quoted in an answer or in the middle of a thought is plain text.
//   - A block without end is all reasoning, in every family and in both modes.
//   - With Options.Tools, a call inside an open block of Qwen ends it, but a mere mention of
//     the tag does not (vllm-project/vllm#42021, #56658).
package reasoning
