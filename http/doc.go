// Package http serves the OpenAI-shaped API, and Anthropic's Messages, over fiber:
// routes, bodies in and out, server-sent events, authentication, and the watch for
// clients that left.
//
// It knows no actor and no model: a request becomes an [infer.Request] (packages
// openai and anthropic do the conversion), goes to the [infer.Generator] of
// [Options], and its [infer.Stream] is written out by the goroutine that owns the
// connection.
//
// Who owns which bytes: a body is read from the connection into memory of our own
// that grows as bytes arrive and counts against a budget of all bodies (body.go,
// transfer.go). It is given back when the request has been parsed, so what is kept
// for longer is copied. How many are parsed at a time is bounded (gate.go). An
// answer in one piece counts against a budget of its own until it is written
// (held.go). A stream's chunks are appended to one buffer per stream.
//
// A failure is logged once, by who knows its cause: by the generator if it ends in
// a Final, here if it is a panic or an internal error that was returned. The access
// log says how each request ended, a broken stream included.
//
// Every call of a generating endpoint has an entry in the ledger, from the moment
// its path and key are known, and the entry is closed exactly once: by the handler
// if the call is refused, else by the meter through which its stream is read, even
// if the reader leaves before the end. What is counted, logged, charged to a key
// and shown to administrators comes from there.
//
// A client that closes its connection is gone: the request is cancelled at once,
// streaming or not. One that closes its sending half may still read; probing in
// call.go says how the two are told apart.
package http
