package sampling

// StopMatcher finds stop strings in text that arrives in pieces. How the text is
// cut into pieces never changes what is found or emitted.
//
// The match that is complete first wins, as if text came character by character:
// with the stops "abcd" and "c", the text "abcd" stops at "c". Of several that are
// complete at the same place, the longest wins. Work is linear in the text
// (Aho and Corasick, "Efficient string matching", CACM 18(6), 1975).
type StopMatcher struct {
	stops   []string
	include bool
	nodes   []stopNode // the trie of stops; nodes[0] is the root
	state   int32      // node of the longest suffix of the text that begins a stop
	held    []byte     // held[taken:] may still become a stop: nodes[state].depth bytes
	taken   int
	done    bool
}

// stopNode is a prefix of one or more stop strings. Its children are a list: stops
// are few, so that a walk beats a lookup, which would be made for every byte of text.
type stopNode struct {
	char    byte  // the last byte of the prefix
	depth   int32 // its length in bytes
	child   int32 // the first prefix that is one byte longer, 0 = none
	sibling int32 // the next one of the same parent, 0 = none
	fail    int32 // the node of its longest proper suffix that is a prefix too
	stop    int32 // index of the longest stop string that it ends in, -1 if none
}

// NewStopMatcher returns a matcher of stops; empty strings among them are
// ignored. With include, the stop string that matched is emitted too.
func NewStopMatcher(stops []string, include bool) *StopMatcher {
	m := &StopMatcher{stops: stops, include: include, nodes: []stopNode{{stop: -1}}}
	for i, stop := range stops {
		m.insert(stop, int32(i))
	}
	m.link()
	return m
}

// insert adds stop to the trie.
func (m *StopMatcher) insert(stop string, index int32) {
	if stop == "" {
		return
	}
	at := int32(0)
	for i := range len(stop) {
		to := m.child(at, stop[i])
		if to == 0 {
			to = int32(len(m.nodes))
			m.nodes = append(m.nodes, stopNode{char: stop[i], depth: int32(i) + 1, sibling: m.nodes[at].child, stop: -1})
			m.nodes[at].child = to
		}
		at = to
	}
	if m.nodes[at].stop < 0 { // the first of equal strings
		m.nodes[at].stop = index
	}
}

// link sets the failure links. A node's link is one level or more above it, so
// nodes are visited by depth. Those of the first level keep the root.
func (m *StopMatcher) link() {
	byDepth := make([]int32, 1, len(m.nodes))
	for i := 0; i < len(byDepth); i++ {
		parent := byDepth[i]
		for at := m.nodes[parent].child; at != 0; at = m.nodes[at].sibling {
			byDepth = append(byDepth, at)
			if parent == 0 {
				continue
			}
			n := &m.nodes[at]
			n.fail = m.step(m.nodes[parent].fail, n.char)
			if n.stop < 0 {
				n.stop = m.nodes[n.fail].stop
			}
		}
	}
}

// child returns the node after c, 0 if no stop goes on like that.
func (m *StopMatcher) child(at int32, c byte) int32 {
	to := m.nodes[at].child
	for to != 0 && m.nodes[to].char != c {
		to = m.nodes[to].sibling
	}
	return to
}

// step returns the node after c was read at node at.
func (m *StopMatcher) step(at int32, c byte) int32 {
	for {
		if to := m.child(at, c); to != 0 || at == 0 {
			return to
		}
		at = m.nodes[at].fail
	}
}

// Push adds text. emit is all text that can no longer be part of a stop string
// and was not emitted before; if text ends on a character border, so does emit.
// On a match ok is true, matched is the stop string, emit is what was left before
// it (and the string itself with include), and all later text is ignored.
func (m *StopMatcher) Push(text string) (emit string, matched string, ok bool) {
	if m.done {
		return "", "", false
	}
	if len(m.nodes) == 1 {
		return text, "", false
	}
	pending := len(m.held) - m.taken
	for i := range len(text) {
		m.state = m.step(m.state, text[i])
		if stop := m.nodes[m.state].stop; stop >= 0 {
			m.done = true
			matched = m.stops[stop]
			end := pending + i + 1
			if !m.include {
				end -= len(matched)
			}
			return m.take(text, end), matched, true
		}
	}
	emit = m.take(text, pending+len(text)-int(m.nodes[m.state].depth))
	return emit, "", false
}

// take returns the first n bytes of the pending text followed by text, and holds
// the rest. Bytes that were taken are cut off the buffer only once they are more
// than half of it, so that a long held text is not moved for every small piece.
func (m *StopMatcher) take(text string, n int) string {
	if len(m.held) == 0 {
		m.held = append(m.held, text[n:]...)
		return text[:n]
	}
	m.held = append(m.held, text...)
	emit := string(m.held[m.taken : m.taken+n])
	if m.taken += n; 2*m.taken > len(m.held) {
		m.held = m.held[:copy(m.held, m.held[m.taken:])]
		m.taken = 0
	}
	return emit
}

// Flush returns the text held back, for when no more will come. After a match it
// returns "".
func (m *StopMatcher) Flush() string {
	if m.done {
		return ""
	}
	m.done = true
	return string(m.held[m.taken:])
}
