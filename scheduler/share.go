package scheduler

import "slices"

// share divides the device between keys by start-time fair queueing. Each
// sequence gets its turn when it is added: the virtual time at which its key has
// had what it asked for before. Virtual time is tokens divided by weight; it
// stands at the turn of whoever was admitted last, and a key that was away starts
// there, neither ahead of the others for having been silent nor behind them.
//
// The turns of a key follow the order of arrival: as long as there is only one
// key, that order is the rank. After a failure sequences are added in any order,
// so that their turns are dealt out anew before the next plan.
type share struct {
	now  uint64              // virtual time
	keys map[string]keyShare // of those with sequences, or more
	// disordered: the turns of some key do not follow the order of arrival.
	disordered bool
}

// keyShare is what one key has used.
type keyShare struct {
	until  uint64 // virtual time at which its last sequence has had its share
	latest int64  // latest Arrival of a sequence that got a turn
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
// that it may have, as both take the device's time. One that an earlier scheduler
// had selected goes on now, and costs nothing: it has had its turn.
func (s *share) enter(seq *Sequence) {
	if seq.readmitted {
		seq.turn = s.now
		return
	}
	key, known := s.keys[seq.Key]
	seq.turn = max(s.now, key.until)
	cost := len(seq.Prompt) + min(seq.Params.MaxTokens, maxOutputCost)
	key.until = seq.turn + uint64(cost)*timePerToken/uint64(seq.Weight)
	if known && seq.Arrival < key.latest {
		s.disordered = true
	} else {
		key.latest = seq.Arrival
	}
	s.keys[seq.Key] = key
}

// order deals out the turns of each key's waiting sequences in order of arrival.
func (s *share) order(waiting []*Sequence) {
	s.disordered = false
	byKey := map[string][]*Sequence{}
	for _, seq := range waiting {
		byKey[seq.Key] = append(byKey[seq.Key], seq)
	}
	var turns []uint64
	for _, sequences := range byKey {
		turns = turns[:0]
		for _, seq := range sequences {
			turns = append(turns, seq.turn)
		}
		slices.Sort(turns)
		slices.SortFunc(sequences, func(a, b *Sequence) int {
			if arrivedBefore(a, b) {
				return -1
			}
			return 1 // no two are equal
		})
		for i, seq := range sequences {
			seq.turn = turns[i]
		}
	}
}

// admitted moves the time to a sequence's turn.
func (s *share) admitted(seq *Sequence) { s.now = max(s.now, seq.turn) }

// idle forgets what keys have had: there is nobody to be fair to.
func (s *share) idle() { clear(s.keys) }
