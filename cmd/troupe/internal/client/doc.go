// Package client is a small streaming client of OpenAI-compatible servers, for
// the chat and bench commands. It reads server-sent events itself, with bounds on
// what a server may send, and knows the usage and metrics of the last chunk.
package client
