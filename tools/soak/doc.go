// Command soak runs a server with two batchers under mixed traffic (streams,
// whole answers, several choices, clients that leave, bad requests, requests that
// break a step, an administrator who cancels) while it makes the batchers fail, and
// then balances the books: every request has exactly one outcome, every token an
// owner, and every complete answer is the one that a quiet server gives.
//
//	go run ./tools/soak -time 10m [-server bin/troupe] [-seed 1] [-workers 24]
//
// It exits with 1 if anything does not balance.
package main
