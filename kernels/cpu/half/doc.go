// Package half converts IEEE 754 binary16, as weights, scales and caches hold it.
package half
