// Package compute names the operations that a decoder needs, as one interface
// over opaque handles. A forward pass is written once, in package model, and
// runs on every [Backend].
package compute
