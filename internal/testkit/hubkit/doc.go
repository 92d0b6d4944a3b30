// Package hubkit serves repositories as a Hugging Face hub does, for tests: the
// list of files, small files, and redirects of large ones to a second server that
// knows ranges. Tests put faults into both and look at what was asked for.
package hubkit
