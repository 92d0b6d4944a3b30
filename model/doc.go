// Package model reads model folders in the Hugging Face layout and runs them.
//
// [OpenDir] (or package model/understudy for the built-in model) gives a
// [Folder]; [Load] checks its config.json and generation_config.json, maps the
// safetensors files, hands the raw bytes to a [compute.Backend] and closes the
// maps; [Model.NewRunner] gives an [infer.Runner] that executes the scheduler's
// plans on its own goroutine.
//
// The decoder's forward pass is written once, in forward.go, over the
// backend's operations. The package knows no scheduler, no actor, no tokenizer
// and no device.
//
// Everything read from a folder is checked before it is believed: sizes are
// bounded, nothing is allocated by a length that a file merely claims, and
// each refusal is an *infer.Error that names the file, what was expected and
// what was found.
package model
