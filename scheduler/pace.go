package scheduler

import "math"

// pace sizes the prefills of steps in which sequences decode, so that a step takes
// no longer than a target. It learns from the durations of steps: a step costs what
// its decodes cost, and so much for each token of a prefill. Nothing is assumed of
// the device, and contexts that grow, or more sequences that decode, show in the
// next durations.
type pace struct {
	target int64 // nanoseconds; 0 = no limit, and nothing is learnt

	decodes float64 // smoothed duration of steps without prefill, nanoseconds; 0 = not seen yet
	// Of steps with prefill, older ones counting less: what they took beyond the
	// decodes, and the tokens that took it. Their ratio is the cost of a token, in
	// which a step of few tokens counts for little.
	extra  float64 // nanoseconds
	tokens float64
}

const (
	// minPaced is what prefills get however long steps take, or they would never end:
	// one row of tiles of the kernels.
	minPaced = 16
	// A step counts for a quarter of what is known, so that a duration that is off,
	// for whatever else the machine does, is forgotten after a few steps.
	paceMemory = 0.75
)

// observe learns from a step that took ns nanoseconds, of which prefills had
// numPrefill tokens; numDecodes sequences decoded.
func (p *pace) observe(ns int64, numPrefill, numDecodes int) {
	switch {
	case p.target == 0 || ns <= 0:
	case numPrefill == 0 && p.decodes == 0:
		p.decodes = float64(ns)
	case numPrefill == 0:
		p.decodes = paceMemory*p.decodes + (1-paceMemory)*float64(ns)
	default:
		extra := float64(ns)
		if numDecodes > 0 {
			// Not below a tenth: the decodes may have become fewer since.
			extra = max(extra-p.decodes, extra/10)
		}
		p.extra = paceMemory*p.extra + extra
		p.tokens = paceMemory*p.tokens + float64(numPrefill)
	}
}

// limit returns how many tokens of prefills fit into a step beside decodes.
func (p *pace) limit() int {
	if p.target == 0 {
		return math.MaxInt
	}
	perToken := p.decodes // before the first prefill: a step is the most that a token can cost
	if p.tokens > 0 {
		perToken = p.extra / p.tokens
	}
	if perToken == 0 {
		return minPaced
	}
	fit := (float64(p.target) - p.decodes) / perToken
	return int(min(max(fit, minPaced), math.MaxInt32))
}

// ObserveStep tells how long the step outstanding took, in nanoseconds, before its
// Commit. Without Config.ITLTarget it does nothing. Durations decide how prefills
// are cut into chunks, and so when tokens come, but never which.
func (s *Scheduler) ObserveStep(ns int64) {
	if s.config.ITLTarget == 0 || !s.inFlight {
		return
	}
	numPrefill, numDecodes := 0, 0
	for _, seq := range s.batch {
		if n := seq.numScheduled - seq.numDrafts; n > 1 {
			numPrefill += n
		} else {
			numDecodes++
		}
	}
	s.pace.observe(ns, numPrefill, numDecodes)
}
