// Package benchmarks measures the whole server and prints ratios within one
// run: metrics on against off, the server against a bare fiber loop, the pause of
// a failure against what it cannot be shorter than, the goodput of 20 times the
// clients there are seats for, tokens per step with and without drafts, the share of
// the step that masks take, and the start of the real binary. What watching a
// connection costs is measured in package http. It holds benchmarks only; goals and
// figures are in docs/benchmarks.md:
//
//	make bench
package benchmarks
