// Package logline writes log records as single lines in the form that people
// know from vLLM: level, month-day, time, message, then key=value pairs.
package logline
