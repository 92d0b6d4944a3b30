// Package machine says how much memory and how many processors a process may use: what
// the machine has, and what the control groups that the process is in leave of it. It
// reads the files in which Linux says so; elsewhere nothing is known.
package machine
