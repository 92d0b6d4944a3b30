// Package enginebench measures the engine below the actors: scheduler, KV cache and
// runner, stepped as a batcher steps them, without a server and without clients. It
// tells how fast a model prefills and decodes on this machine, and how much of the
// memory's bandwidth that takes.
package enginebench
