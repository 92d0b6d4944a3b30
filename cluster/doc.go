// Package cluster is what an engine needs to know of other nodes: who there is
// (membership), how to reach them safely (transport security), what crosses
// (clusterpb) and which device anywhere a sequence is placed on.
//
// [Node] is this process as others see it: it describes itself, is told of others by
// a [Provider], and opens and serves sessions, each a [Link] of messages in order.
//
// Placement is pure: [Placer.Pick] filters, scores and picks among candidates that
// its caller describes. It knows no clock, no node and no actor; the tests run it
// under a simulated clock with a thousand nodes.
package cluster
