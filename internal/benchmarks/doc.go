// Package benchmarks measures the whole server and prints ratios within one
// run: metrics on against off, the server against a bare fiber loop, the pause of
// a failure against what it cannot be shorter than, and the start of the real
// binary. It holds benchmarks only:
//
//	make bench
package benchmarks
