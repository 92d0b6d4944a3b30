// Package etcd finds the members of a cluster in an etcd: each node keeps a key
// there as long as it lives, and watches those of the others.
package etcd
