// Package config turns a command line, a --config file and the environment into
// checked settings.
//
// [Parse] reads flags in vLLM's forms: dashes and underscores alike, --x and
// --no-x, --x=v and --x v, lists separated by blanks, dotted members of JSON
// flags, numbers such as 32k. What is wrong with the command line itself is a
// [UsageError] (exit status 2); [Serve.Check] finds settings that contradict each
// other (exit status 1). Neither touches a model or the network.
//
// Flags that vLLM has and we do not are one table, foreign.go: harmless ones are
// accepted with a warning, the others refused unless they ask for the default.
package config
