// Package mcp is a client of tool servers that speak the Model Context Protocol over
// streamable HTTP. It implements [infer.Toolbox].
//
// A session carries one call at a time, so that what breaks it (a server that dies,
// hangs, or answers nonsense) breaks that call alone. Sessions that did well wait for
// the next call; those that did not are closed, and the next call opens another. A
// server that was away is back as soon as it answers again, with the tools that it has
// then; and a list of tools that is older than a few seconds is asked for again beside
// the requests that see it. A call that may have reached its server is never repeated.
//
// Everything that a server sends is bounded: see the constants. Addresses may hold
// secrets, so neither results nor log lines show them; a server is named by its label.
package mcp
