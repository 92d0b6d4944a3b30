// Package bench loads an OpenAI-compatible server and reports what its clients
// saw: time to first token, gaps, throughput, errors. Where the server reports
// per-request metrics, they are held against this client's own stopwatch.
//
// [Run] keeps a number of requests in flight or starts them at a rate; [Report]
// is the result, as a table and as JSON. Memory is bounded by the number of
// requests and a fixed sample of the gaps.
package bench
