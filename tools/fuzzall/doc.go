// Command fuzzall runs every fuzz target of the module one after the other,
// each for the same time. go test itself can fuzz only one target at a time.
//
//	go run ./tools/fuzzall -time 2m [-run REGEXP]
package main
