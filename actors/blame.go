package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// Crashes is what speaks against a sequence: the failed steps that it was aboard
// of since it last got a token. The zero value speaks for it. It travels with the
// sequence from batcher to batcher.
type Crashes struct {
	Num     int   // failed steps that it was aboard of
	NumLone int   // of those, the last ones in a row that it had to itself and that ended at the same token
	At      int   // tokens of it that were computed at the end of these, had they gone well
	Since   int64 // instant of the first; 0 = none

	acquittalsAtFirst uint64 // environment.acquittals at the first
	failuresAtFirst   uint64 // environment.failures at the first, that one included
	// Both count as environment.goodSteps does, so that a greater count there means
	// that the device did some work since.
	goodAtFirst uint64 // at the first failed step
	// goodAtLone: at the last one that it had to itself, plus the good steps since
	// that it had to itself, too: those show nothing of the device that could not be
	// the sequence's own doing.
	goodAtLone uint64
}

// isolate reports whether a sequence with so many output tokens must not share a
// step. After the first failure one that was decoding goes on in company: the
// failure was hardly its own, and to compute all sequences again in one go is
// quicker than one by one. One that never had a token is more likely the cause.
func (c *Crashes) isolate(numTokens int) bool {
	return c.Num > 1 || c.Num == 1 && numTokens == 0
}

// How a sequence is found out. A step that fails with only one sequence aboard is
// evidence against it, and none against anybody else. Once may be the device's
// fault, and twice still may: two devices that break one after the other are two
// failures, however well the second one worked before.
//
// Failures at different tokens of one sequence are no evidence: it got past the
// first. And whenever a sequence that failed alone gets a token after all, devices
// are seen to fail by themselves: each such acquittal since the first failure asks
// for perAcquittal more. The scheduler makes a suspect wait for more and more steps
// of others, so that failures in a rhythm do not always meet the same one.
const (
	// maxLone failed steps to itself are enough if the device did other work
	// between the last two, and nothing failed without the sequence.
	maxLone = 3
	// maxLoneInDoubt are enough otherwise: on an idle server there is no other work.
	// Only if others fail as well, more often, and nothing works, it is the device.
	maxLoneInDoubt = 5
	perAcquittal   = 2
	// maxCrashes are enough for an error, once the recovery timeout has passed.
	maxCrashes = 8
)

// blame knows how a batcher died.
type blame struct {
	aboard  map[infer.SeqID]bool // nil: died outside a step, everybody it knew is a suspect
	alone   bool                 // there is one suspect only
	at      int                  // tokens of a lone suspect that would have been computed; 0 = died outside a step
	culprit infer.SeqID          // of an attributed fault; valid if known
	known   bool
	fault   error

	now        int64
	began      int64         // when what failed was begun, or earlier
	goodSteps  uint64        // of all batchers
	failures   uint64        // of all batchers, this one included
	acquittals uint64        // of all batchers
	patience   time.Duration // Config.RecoveryTimeout
}

// accuse fills in who was aboard, of numKnown sequences.
func (b *blame) accuse(plan *infer.StepPlan, numKnown int) {
	b.alone = numKnown == 1
	if plan == nil {
		return
	}
	b.alone = len(plan.Sequences) == 1
	if b.alone {
		b.at = plan.Sequences[0].StartPos + len(plan.Sequences[0].TokenIDs)
	}
	b.aboard = make(map[infer.SeqID]bool, len(plan.Sequences))
	for i := range plan.Sequences {
		b.aboard[plan.Sequences[i].SeqID] = true
	}
	var attributed *infer.SequenceFault
	if errors.As(b.fault, &attributed) && b.aboard[attributed.SeqID] {
		b.culprit, b.known = attributed.SeqID, true
	}
}

// verdict returns what speaks against a sequence after this, and an error if it
// must not be tried again: it is known to be the culprit, or found out to be, or
// the device fails for so long that there is no use.
func (b *blame) verdict(id infer.SeqID, c Crashes) (Crashes, *infer.Error) {
	switch {
	case b.known && id == b.culprit:
		return c, infer.Internal(b.fault)
	case b.known, b.aboard != nil && !b.aboard[id]:
		return c, nil
	}
	c.Num++
	if c.Num == 1 {
		c.Since, c.goodAtFirst, c.failuresAtFirst, c.acquittalsAtFirst = b.now, b.goodSteps, b.failures, b.acquittals
	}
	proven := false
	if b.alone {
		if c.At != b.at {
			c.NumLone, c.At = 0, b.at
		}
		c.NumLone++
		proven = b.goodSteps > c.goodAtLone
		c.goodAtLone = b.goodSteps
	}
	ofOthers := int(b.failures-c.failuresAtFirst) - (c.Num - 1)
	more := perAcquittal * int(b.acquittals-c.acquittalsAtFirst)
	switch {
	// The last step may have taken long to fail: what counts is when it was tried.
	case b.began-c.Since > int64(b.patience) && (b.goodSteps == c.goodAtFirst || c.Num >= maxCrashes):
		return c, b.outage()
	case !b.alone:
	case proven && ofOthers == 0 && c.NumLone >= maxLone+more,
		(proven || ofOthers <= c.NumLone) && c.NumLone >= maxLoneInDoubt+more:
		return c, b.sentence(id, &c)
	}
	return c, nil
}

// sentence is the error of a sequence that was found out.
func (b *blame) sentence(id infer.SeqID, c *Crashes) *infer.Error {
	err := infer.Errorf(infer.CodeEngineFault, "", "Internal server error: the engine failed %d times at this request alone, so it was given up.", c.NumLone)
	err.Err = fmt.Errorf("sequence %d ended %d steps, %d of them alone: %w", id, c.Num, c.NumLone, b.cause())
	return err
}

// outage is the error of a sequence that the device may be to blame for.
func (b *blame) outage() *infer.Error {
	err := infer.Errorf(infer.CodeUnavailable, "", "The inference device has failed again and again for more than %v.", b.patience)
	err.RetryAfter, err.Err = lastRetry, b.cause()
	return err
}

func (b *blame) cause() error {
	if b.fault != nil {
		return b.fault
	}
	return errors.New("the batcher panicked")
}
