// Package tokenizer turns text into token ids and back, the way a Hugging Face
// tokenizer.json says. It reads models of type BPE: byte-level ones (GPT-2,
// Llama 3, Qwen, DeepSeek, gpt-oss) and character-level ones with byte fallback
// (Llama 2, Mistral, Gemma); of type Unigram (T5, ALBERT, XLM-R), with the
// charsmaps of SentencePiece; and of a type of our own, SentencePieceBPE, which
// stands for the vocabularies of GGUF files: BPE that has the score of every
// token in place of merges. Anything it does not know is refused by name when
// the file is loaded, never when a request is served.
//
// # Encoding
//
// Text passes through the stages of the file in the order of the reference
// implementation (Rust crate "tokenizers" 0.22):
//
//  1. Added tokens that are not "normalized" are cut out by longest match.
//  2. Each gap between them is normalized by itself.
//  3. Added tokens that are "normalized" are cut out of the result.
//  4. The pre-tokenizer cuts the gaps into words.
//  5. Byte-pair merging, or the search for the best sum of scores, turns each
//     word into ids.
//  6. The post-processor puts the template's ids around them; a text that
//     begins with the template's ids keeps those and gets no second set.
//
// Control tokens are the added tokens that are "special". A caller that puts
// foreign text into a prompt names the ranges of that text in
// [EncodeOptions].Literal: a control token that touches such a range is plain
// text. Other added tokens (<tool_call>, say) keep their single id everywhere.
//
// Where the ids may differ from the reference on purpose:
//   - a word longer than 64 KiB is merged in overlapping parts, so that its
//     cost stays near linear and its memory bounded;
//   - whether a charsmap applies to a mark together with the character before it
//     follows Go's version of Unicode (15; the reference has 16);
//   - a suppressed control token is searched for other tokens within itself;
//   - a split pattern without a scanner of its own sees 128 KiB at a time, so
//     that longer matches are cut, and text on which it runs out of time is
//     split by the GPT-2 rule from there on;
//   - bytes that are not UTF-8, which the reference cannot take, stay as they are.
//
// # Decoding
//
// Every token stands for bytes. [Tokenizer.Decode] and [Decoder] concatenate
// them and read the result as UTF-8: each maximal invalid subpart becomes
// U+FFFD, and an incomplete character at the very end is dropped by both, so
// that pushing ids one by one and decoding them at once give the same text.
// (The reference writes U+FFFD for that end, and one per byte with byte fallback.)
// Generated text is decoded with [Decoder.DropInvalid]: no U+FFFD at all.
package tokenizer
