// Package jsonfields reads JSON objects that come with a model, such as
// config.json: every member with its type and range checked, every fault an
// *infer.Error that names the file, the member, its value and what is possible.
package jsonfields
