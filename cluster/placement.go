package cluster

import (
	"math/rand/v2"
	"time"
)

// Load is a sample of a device.
type Load struct {
	NumSequences    int // assigned to it, running or not
	NumQueuedTokens int // prompt tokens of those that wait for their first step
	NumFreeBlocks   int // KV blocks, cached ones included
}

// Candidate is a device as one front sees it.
type Candidate struct {
	Model       string // fingerprint; see Demand
	Serving     bool   // has a batcher that lives, and is not about to leave
	Local       bool   // of this process: its sample is never stale
	MaxNumSeqs  int    // seats; 0 = not known
	BlockSize   int    // tokens
	MaxModelLen int    // tokens of one sequence

	Load      Load
	SampledAt int64   // instant at which the sample arrived
	Placed    Placed  // what it does not show yet
	Prefixes  *Digest // nil = not known
}

// Placed is what this front has on a device now, less what it had there when the
// sample was taken; below zero where more has ended than begun.
type Placed struct {
	NumSequences int
	NumTokens    int // prompt tokens of those that wait for their first step
}

// Demand is what a sequence asks for.
type Demand struct {
	Model        string
	NumTokens    int      // to be computed before the next one is drawn
	MaxNumTokens int      // that it may have in the end
	Prefixes     []uint64 // PrefixHashes of its prompt
}

// Placer picks devices. The zero value is not usable; see NewPlacer.
type Placer struct {
	// MaxAge is how old a sample may be. An older one is of a node that is cut off,
	// frozen or starved: whatever it says, it is not so any more.
	MaxAge time.Duration
	// MaxScored is how many candidates are scored one by one. Of more, numChoices at
	// random are, and the one that has most of the prompt: scoring all would cost more
	// than it gains.
	MaxScored int
	// NumFronts is how many place on the same devices, at least 1. Each sees the same
	// samples and does the same with them: without a thought for the others, all would
	// fill the same gap, and leave a hill.
	NumFronts int

	rand     *rand.Rand
	eligible []int // scratch
}

const (
	defaultMaxAge    = 2 * time.Second
	defaultMaxScored = 256
	// numChoices of very many devices are nearly as good as all. Two, which are enough
	// where samples are fresh, left requests waiting four times as long in simulation.
	numChoices = 32
	// sequenceCost is what a sequence aboard costs those who come after it, in prompt
	// tokens: its share of the steps that they will be in.
	sequenceCost = 64
	// shortageCost is what a token without a block costs: somebody will wait until
	// another sequence ends, or be preempted and computed again.
	shortageCost = 8
)

// NewPlacer returns a placer that draws from seed.
func NewPlacer(seed uint64) *Placer {
	return &Placer{MaxAge: defaultMaxAge, MaxScored: defaultMaxScored, NumFronts: 1, rand: rand.New(rand.NewPCG(seed, 0))}
}

// Pick returns the index of the candidate for a demand, -1 if none will do.
func (p *Placer) Pick(d *Demand, candidates []Candidate, now int64) int {
	p.eligible = p.eligible[:0]
	for i := range candidates {
		if c := &candidates[i]; p.filter(d, c, now) {
			p.eligible = append(p.eligible, i)
		}
	}
	n := len(p.eligible)
	if n == 0 {
		return -1
	}
	if n <= p.MaxScored {
		return p.best(d, candidates, p.eligible)
	}
	var choices [numChoices + 1]int
	for i := range choices {
		choices[i] = p.eligible[p.rand.IntN(n)]
	}
	if len(d.Prefixes) > 0 {
		choices[numChoices] = longestMatch(d, candidates, p.eligible, choices[0])
	}
	return p.best(d, candidates, choices[:])
}

// filter reports whether a candidate can take the sequence at all.
func (p *Placer) filter(d *Demand, c *Candidate, now int64) bool {
	switch {
	case !c.Serving, c.Model != d.Model:
		return false
	case c.MaxModelLen > 0 && d.MaxNumTokens > c.MaxModelLen:
		return false
	}
	return c.Local || now-c.SampledAt <= int64(p.MaxAge)
}

// best returns the one of choices with the lowest score. Among equals it draws, or
// else the first one of a list would be full before the others have any.
func (p *Placer) best(d *Demand, candidates []Candidate, choices []int) int {
	best, lowest, numEqual := -1, 0, 0
	for _, i := range choices {
		s := p.Score(d, &candidates[i])
		switch {
		case best < 0 || s < lowest:
			best, lowest, numEqual = i, s, 1
		case s == lowest && i != best:
			if numEqual++; p.rand.IntN(numEqual) == 0 {
				best = i
			}
		}
	}
	return best
}

// Score estimates how much work lies between a sequence and its first token on a
// candidate, in prompt tokens; lower is better.
func (p *Placer) Score(d *Demand, c *Candidate) int {
	unseen := 1 // fronts whose doings since the sample are to be reckoned with
	if !c.Local {
		unseen = p.NumFronts
	}
	own := max(d.NumTokens-c.Prefixes.Match(d.Prefixes), 1)
	newTokens := unseen * c.Placed.NumTokens
	numSequences := max(c.Load.NumSequences+unseen*c.Placed.NumSequences, 0)
	s := max(c.Load.NumQueuedTokens+newTokens, 0) + own + sequenceCost*numSequences
	if c.MaxNumSeqs > 0 {
		s += shortageCost * sequenceCost * max(numSequences+1-c.MaxNumSeqs, 0)
	}
	if c.BlockSize > 0 {
		s += shortageCost * max(own+newTokens-c.Load.NumFreeBlocks*c.BlockSize, 0)
	}
	return s
}

// longestMatch returns the candidate that has most of the prompt, other if none
// has any.
func longestMatch(d *Demand, candidates []Candidate, eligible []int, other int) int {
	longest := 0
	for _, i := range eligible {
		if n := candidates[i].Prefixes.Match(d.Prefixes); n > longest {
			other, longest = i, n
		}
	}
	return other
}
