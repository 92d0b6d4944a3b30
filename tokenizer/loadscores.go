package tokenizer

import (
	"slices"
	"strconv"
)

// scored reports whether the model has scores in place of merges.
func (l *loader) scored() bool {
	return l.model.Type == typeUnigram || l.model.Type == typeScoredBPE
}

// checkScores makes sure that every token has a score.
func (l *loader) checkScores() error {
	m := l.model
	switch m.Type {
	case typeUnigram:
		if n := len(m.Vocab.entries); m.UnkID != nil && (*m.UnkID < 0 || *m.UnkID >= n) {
			return invalid("model.unk_id", "%d, but there are only %d tokens", *m.UnkID, n)
		}
		for _, e := range m.Vocab.entries {
			if len(e.form) > maxPieceBytes {
				return exceeds("model.vocab", "length in bytes of "+strconv.Quote(clip(e.form)), len(e.form), maxPieceBytes)
			}
		}
	case typeScoredBPE:
		for _, e := range m.Vocab.entries {
			if int(e.id) >= len(m.Scores) {
				return invalid("model.scores", "%d scores, but there is a token with id %d", len(m.Scores), e.id)
			}
		}
	}
	return nil
}

// buildSegmenter gives m its table of merges or what stands in its place.
func (l *loader) buildSegmenter(m *bpe) (err error) {
	switch l.model.Type {
	case typeUnigram:
		m.other = newUnigram(m, l.model.Vocab.scores, l.plainTokens())
	case typeScoredBPE:
		// Neither bytes nor the unknown are texts to merge to.
		m.other = newScoreMerger(m, l.model.Scores[:min(len(l.model.Scores), len(l.forms))], func(id int32) bool {
			_, isByte := byteToken(l.forms[id])
			return l.inVocab[id] && id != m.unk && !(isByte && m.byteFallback)
		})
	default:
		m.merges, err = buildMerges(l.model.Merges.pairs, m.vocab)
	}
	return err
}

// plainTokens says which ids of a Unigram texts may be written with: all but
// control tokens. Where these are recognised, they are cut out beforehand; where
// they are not, their spelling is text like any other.
func (l *loader) plainTokens() []bool {
	plain := slices.Clone(l.inVocab[:len(l.model.Vocab.entries)])
	for _, a := range l.file.AddedTokens {
		if a.Special && int(*a.ID) < len(plain) {
			plain[*a.ID] = false
		}
	}
	return plain
}

// startMayGo reports whether a stage looks at where a text begins, and a
// normalizer may drop characters.
func (l *loader) startMayGo() bool {
	looks := slices.ContainsFunc(l.pre.stages, func(s stage) bool {
		m, ok := s.(metaspace)
		return ok && m.scheme == "first"
	})
	return looks && slices.ContainsFunc(l.normalizers, func(n normalizer) bool {
		switch n := n.(type) {
		case unicodeForm, prepend:
			return false
		case replace:
			return n.new == ""
		}
		return true
	})
}
