package http

import (
	"context"
	"runtime"

	"github.com/troupe-llm/troupe/infer"
)

const (
	// tinyBody is the size up to which a request is prepared in no time: most are.
	tinyBody = 16 << 10
	// smallBody is the size from which a request counts as large.
	smallBody = 64 << 10
	// smallForm is the size from which a form that an output must have (a schema, a
	// grammar, the parameters of tools) makes a request large, whatever its body is.
	smallForm = 4 << 10
	// tinyLanes is how many tiny requests per core are prepared at a time. It is out of
	// reach of usual traffic: each takes a fraction of a millisecond.
	tinyLanes    = 16
	minTinyLanes = 64
	// smallLanes is how many small requests per core are prepared at a time: more would
	// wait for a core all the same, and hold it from others.
	smallLanes = 2
)

// gate bounds how many requests are prepared at a time: parsed, rendered, turned
// into tokens. That is plain computing on bytes of strangers, and without a bound
// enough of it takes the cores from running steps and from everybody's events.
// Large requests have one core less than there are. Each size has a queue of its own,
// in the order in which requests came; none is behind a larger one.
// Small forms have one, too, since what they cost is known only when they are compiled:
// who wants plain text is not behind those who try how much that can be.
type gate struct{ tiny, small, large, forms chan struct{} }

func newGate() *gate {
	cores := runtime.GOMAXPROCS(0)
	return &gate{
		tiny:  make(chan struct{}, max(minTinyLanes, tinyLanes*cores)),
		small: make(chan struct{}, smallLanes*cores),
		large: make(chan struct{}, max(1, cores-1)),
		forms: make(chan struct{}, max(minTinyLanes, tinyLanes*cores)),
	}
}

// pass is a request's place in a lane. One goroutine has it.
type pass struct {
	gate *gate
	lane chan struct{} // nil = it is out
}

// enter waits for the turn of a body of numBytes, until ctx ends. The pass must be
// left when the request is prepared.
func (g *gate) enter(ctx context.Context, numBytes int) (*pass, error) {
	p := &pass{gate: g}
	switch {
	case numBytes <= tinyBody:
		return p, p.take(ctx, g.tiny)
	case numBytes <= smallBody:
		return p, p.take(ctx, g.small)
	}
	return p, p.take(ctx, g.large)
}

func (p *pass) take(ctx context.Context, lane chan struct{}) error {
	select {
	case lane <- struct{}{}:
		p.lane = lane
		return nil
	case <-ctx.Done():
		return &infer.Error{Code: infer.CodeUnavailable, Message: "The request was given up before it was admitted.", Err: ctx.Err()}
	}
}

// leave makes room for the next one; further calls do nothing.
func (p *pass) leave() {
	if p.lane != nil {
		<-p.lane
		p.lane = nil
	}
}

// reclassify sends a request that turned out to be more work than its size says to
// others of its kind. What it asks for is known only once it has been parsed.
func (p *pass) reclassify(ctx context.Context, r *infer.Request) error {
	to := p.lane
	switch n := formBytes(r); {
	case p.lane == p.gate.large || n == 0:
	case n > smallForm:
		to = p.gate.large
	case p.lane == p.gate.tiny:
		to = p.gate.forms
	}
	if to == p.lane {
		return nil
	}
	p.leave()
	return p.take(ctx, to)
}

// formBytes is the size of what has to be compiled for a request.
func formBytes(r *infer.Request) int {
	n := 0
	if s := r.Structured; s != nil {
		n += len(s.JSONSchema) + len(s.Regex) + len(s.EBNF)
		for _, choice := range s.Choice {
			n += len(choice)
		}
	}
	if r.Tools != nil {
		for i := range r.Tools.Tools {
			n += len(r.Tools.Tools[i].Name) + len(r.Tools.Tools[i].Parameters)
		}
	}
	return n
}
