// Package clusterpb has the messages that cross nodes, generated from
// cluster.proto. What they mean is said there.
package clusterpb

//go:generate go run ../../tools/protogen cluster.proto
