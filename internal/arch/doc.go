// Package arch holds tests of the house itself: which package may import
// which, and that every package introduces itself.
package arch
