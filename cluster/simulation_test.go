package cluster_test

import (
	"container/heap"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cluster"
)

var (
	simNodes    = flag.Int("sim-nodes", 24, "nodes of TestPlacementAgainstOthers")
	simRequests = flag.Int("sim-requests", 20_000, "requests of TestPlacementAgainstOthers")
)

// world is a cluster under a simulated clock: nodes with seats and a queue in order
// of arrival, fronts that know nodes from samples and from what they did themselves.
type world struct {
	rng         *rand.Rand
	seats       int
	nodes       []simNode
	fronts      []simFront
	departures  departures
	sampleEvery time.Duration
	now         time.Duration

	waits     []time.Duration
	imbalance float64 // sum over samples
	samples   int
}

type simNode struct {
	running, waiting int
	queue            []simRequest
}

type simFront struct {
	placer     *cluster.Placer
	candidates []cluster.Candidate
}

type simRequest struct {
	arrival, service time.Duration
	front, node      int
}

type departures []simDeparture

type simDeparture struct {
	at          time.Duration
	front, node int
}

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].at < d[j].at }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)        { *d = append(*d, x.(simDeparture)) }
func (d *departures) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func newWorld(seed uint64, numNodes, seats, numFronts int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), seats: seats, nodes: make([]simNode, numNodes), sampleEvery: 200 * time.Millisecond}
	for f := range numFronts {
		front := simFront{placer: cluster.NewPlacer(seed + uint64(f)), candidates: make([]cluster.Candidate, numNodes)}
		for i := range front.candidates {
			front.candidates[i] = cluster.Candidate{Model: "m", Serving: true, MaxNumSeqs: seats}
		}
		front.placer.NumFronts = numFronts
		w.fronts = append(w.fronts, front)
	}
	return w
}

// pick chooses a node for a request of a front.
type pick func(w *world, front, request int) int

func placed(w *world, front, _ int) int {
	f := &w.fronts[front]
	return f.placer.Pick(&cluster.Demand{Model: "m", NumTokens: 16}, f.candidates, int64(w.now))
}

func atRandom(w *world, _, _ int) int         { return w.rng.IntN(len(w.nodes)) }
func inTurn(w *world, front, request int) int { return (request/len(w.fronts) + front) % len(w.nodes) }
func singleQueue(_ *world, _, _ int) int      { return 0 }
func exponential(r *rand.Rand) func() float64 { return r.ExpFloat64 }
func constant(*rand.Rand) func() float64      { return func() float64 { return 1 } }

// run offers requests at a rate per second, of a mean service time of one second.
func (w *world) run(numRequests int, rate float64, service func(*rand.Rand) func() float64, choose pick) {
	draw := service(w.rng)
	nextSample := time.Duration(0)
	at := time.Duration(0)
	for i := range numRequests {
		at += time.Duration(w.rng.ExpFloat64() / rate * float64(time.Second))
		for w.departures.Len() > 0 && w.departures[0].at <= at || nextSample <= at {
			if w.departures.Len() > 0 && w.departures[0].at <= min(at, nextSample) {
				w.depart(heap.Pop(&w.departures).(simDeparture))
				continue
			}
			w.now = nextSample
			w.sample()
			nextSample += w.sampleEvery
		}
		w.now = at
		front := w.rng.IntN(len(w.fronts))
		node := choose(w, front, i)
		w.arrive(simRequest{arrival: at, service: time.Duration(draw() * float64(time.Second)), front: front, node: node})
	}
}

func (w *world) arrive(r simRequest) {
	w.fronts[r.front].candidates[r.node].Placed.NumSequences++
	n := &w.nodes[r.node]
	if n.running == w.seats {
		n.waiting++
		n.queue = append(n.queue, r)
		return
	}
	w.start(n, r)
}

func (w *world) start(n *simNode, r simRequest) {
	n.running++
	w.waits = append(w.waits, w.now-r.arrival)
	heap.Push(&w.departures, simDeparture{at: w.now + r.service, front: r.front, node: r.node})
}

func (w *world) depart(d simDeparture) {
	w.now = d.at
	w.fronts[d.front].candidates[d.node].Placed.NumSequences--
	n := &w.nodes[d.node]
	n.running--
	if n.waiting > 0 {
		r := n.queue[0]
		n.queue = n.queue[1:]
		n.waiting--
		w.start(n, r)
	}
}

// sample shows all fronts the nodes as they are now.
func (w *world) sample() {
	sum, most := 0, 0
	for i := range w.nodes {
		total := w.nodes[i].running + w.nodes[i].waiting
		sum, most = sum+total, max(most, total)
		for f := range w.fronts {
			c := &w.fronts[f].candidates[i]
			c.Load.NumSequences, c.Placed = total, cluster.Placed{}
			c.SampledAt = int64(w.now)
		}
	}
	if w.now > 5*time.Second && sum > 0 { // after the beginning
		mean := float64(sum) / float64(len(w.nodes))
		w.imbalance += (float64(most) - mean) / mean
		w.samples++
	}
}

func (w *world) wait(quantile float64) time.Duration {
	slices.Sort(w.waits)
	return w.waits[int(float64(len(w.waits)-1)*quantile)]
}

// Waiting under placement is close to that of a single queue before all seats, and
// far from that of nodes chosen blindly.
func TestPlacementAgainstOthers(t *testing.T) {
	const seats, numFronts, load = 8, 4, 0.85
	n := *simNodes
	p99 := map[string]time.Duration{}
	for name, policy := range map[string]pick{"placement": placed, "random": atRandom, "round robin": inTurn} {
		w := newWorld(3, n, seats, numFronts)
		w.run(*simRequests, load*float64(n*seats), exponential, policy)
		p99[name] = w.wait(0.99)
	}
	ideal := newWorld(3, 1, n*seats, numFronts)
	ideal.run(*simRequests, load*float64(n*seats), exponential, singleQueue)
	p99["single queue"] = ideal.wait(0.99)
	t.Logf("p99 wait, %d nodes of %d seats, %d requests, load %v: %v", n, seats, *simRequests, load, p99)
	require.Less(t, p99["placement"], p99["random"]/4)
	require.Less(t, p99["placement"], p99["round robin"]/2)
	require.Less(t, p99["placement"], p99["single queue"]+300*time.Millisecond)
}

// Three nodes, 200 requests a second of one second each: nobody runs much more than
// the others.
func TestPlacementIsBalanced(t *testing.T) {
	mean := func(policy pick) float64 {
		w := newWorld(5, 3, 1000, 3)
		w.run(6000, 200, constant, policy)
		return w.imbalance / float64(w.samples)
	}
	balanced, random, turns := mean(placed), mean(atRandom), mean(inTurn)
	t.Logf("(max - mean) / mean: placement %.3f, random %.3f, round robin %.3f", balanced, random, turns)
	require.LessOrEqual(t, balanced, 0.15)
	require.Less(t, balanced, random)
}
