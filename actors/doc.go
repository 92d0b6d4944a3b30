// Package actors runs requests: a supervised tree of request, sequence and
// batcher actors behind the [Engine] façade.
package actors
