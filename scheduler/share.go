package scheduler

// share divides the device between keys by start-time fair queueing. Each
// sequence gets its turn when it is added: the virtual time at which its key has
// had what it asked for before. Virtual time is tokens divided by weight; it
// stands at the turn of whoever was admitted last, and a key that was away starts
// there, neither ahead of the others for having been silent nor behind them.
//
// Turns never change, so that they are a rank like any other. One key's turns
// grow in the order of adding: as long as there is only one, that order is the
// rank.
type share struct {
	now  uint64            // virtual time
	used map[string]uint64 // by key: virtual time at which its last sequence has had its share
}

const (
	maxWeight = 1 << 10
	// timePerToken is the virtual time of a token at weight 1, fine enough for the
	// greatest weight.
	timePerToken = maxWeight
	// maxOutputCost bounds the output tokens that a sequence counts for: many set no
	// limit or a generous one, and few reach it.
	maxOutputCost = 256
)

// enter gives a sequence its turn. It costs its key the prompt and the output
// that it may have, as both take the device's time.
func (s *share) enter(seq *Sequence) {
	seq.turn = max(s.now, s.used[seq.Key])
	cost := len(seq.Prompt) + min(seq.Params.MaxTokens, maxOutputCost)
	s.used[seq.Key] = seq.turn + uint64(cost)*timePerToken/uint64(seq.Weight)
}

// admitted moves the time to a sequence's turn.
func (s *share) admitted(seq *Sequence) { s.now = max(s.now, seq.turn) }

// idle forgets what keys have had: there is nobody to be fair to.
func (s *share) idle() { clear(s.used) }
