// Package computetest checks a [compute.Backend] against the contract: each
// operation against its float64 oracle in kernels/ref, at odd sizes and with
// poisoned memory, and the promise that a row's bits never depend on the rows
// beside it. A backend's tests call [Run].
package computetest
