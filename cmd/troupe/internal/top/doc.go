// Package top is `troupe top`: the requests in flight of a server, live in the
// terminal, with a key to cancel one.
package top
