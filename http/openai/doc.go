// Package openai turns the OpenAI API's JSON into Troupe's vocabulary and back.
//
// In: [ParseChat], [ParseCompletion], [ParseResponse], [ParseTokenize] and [ParseDetokenize] take
// a body and return an [infer.Request] (or its like) with a [Reply], or an
// *infer.Error that names the field, the limit and the value. Out: a [Reply]
// makes the writers of its answer: a [Collector] for one body, a [Stream] for
// server-sent events. What comes from the Responses API has writers of its own,
// [ResponseBody] and [ResponseStream], which keep the output's items: each kind of
// item writes itself. Everything here is a pure function of its arguments: ids,
// times and limits come in as [Envelope] and [Profile].
//
// # What a body may look like
//
// Types are checked; null is the same as leaving a field out. Unknown fields are
// ignored, and so are guided_* and include_metrics. Of a field given
// twice, the last one counts. A body must be UTF-8 and nest at most 100 deep. A
// lone surrogate escape becomes U+FFFD. An integer may be written 5.0 or 5e0.
// Fields of later versions (beam search, structural tags) are refused with a 501
// that names them, never ignored.
//
// # What an answer looks like
//
// A body that is not streamed has null for every optional field that is not set;
// `metrics` alone is absent when the server's flag is off. Chunks of a stream
// leave such fields out. Zero is always written. Numbers have no exponent form,
// and a log-probability of minus infinity is -9999.0. The strings of tokens join
// to the text: bytes of a character that spans tokens are shown with the token
// that completes it, and `bytes` holds each token's own raw bytes. An
// alternative that is not whole characters is shown as bytes:\xf0\x9f.
package openai
