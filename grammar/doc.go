// Package grammar says which tokens may come next, so that a text keeps to a
// JSON Schema, a regular expression, a list of choices or a GBNF grammar.
//
// A compile function turns the source into a [Grammar]: a machine over bytes,
// with a stack for recursion and counters for repetitions. A [Matcher] walks
// one text through it. What the matcher needs to know of a tokenizer is in a
// [Vocabulary], a trie over the bytes of its tokens.
//
// The machine is not deterministic: a text so far is a set of threads, each
// with its own stack. A token is allowed if any thread survives it, so the mask
// of a set is the union of the masks of its threads, and a thread's mask is
// kept for every text that meets it again. Nothing of the machine leads into a
// dead end: what can't be completed is cut off when compiling, and a rule is
// entered only if the depth left suffices to leave it.
//
// # What JSON looks like
//
// Compact, with one optional space after a comma or a colon: a model can't lose
// itself in white space. Properties come in the order of the schema, then
// additional ones. An integer lies within int64 and has neither fraction nor
// exponent. A string that the schema leaves free may use every escape of JSON,
// surrogates only in pairs. Where characters matter (enum, pattern, names of
// additional properties), each character has one spelling, or those that
// encoding/json writes.
//
// A schema without "additionalProperties" allows none if it names properties.
// A schema without "type" is read as of the types that its keywords speak of.
// Both mean fewer texts than JSON Schema allows, never more.
package grammar
