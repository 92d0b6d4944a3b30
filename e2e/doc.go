// Package e2e runs the real binary on a real port: the acceptance cases and
// real client SDKs, Go's here and npm's in e2e/clients. The tests stand behind
// the build tag e2e, because they build the server and take minutes:
//
//	make e2e
package e2e
