// Package doctor says what a machine can run: which instructions its processor has,
// how much memory is free and how fast it is read, and from that which models fit
// and how many tokens a second they decode.
package doctor
