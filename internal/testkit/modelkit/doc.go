// Package modelkit makes model folders for tests: a safetensors writer and
// small Llamas with random weights.
package modelkit
