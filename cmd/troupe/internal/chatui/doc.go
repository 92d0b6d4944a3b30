// Package chatui is the terminal side of `troupe chat`: it reads lines, streams
// answers, and writes one dim line of timings after each. Without a terminal on
// its input it answers line after line, for use in pipes.
package chatui
