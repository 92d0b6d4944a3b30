package sampling

// Stops are the stop strings of a request, made ready to be found. They do not
// change, so that all its sequences share them.
//
// The match that is complete first wins, as if text came character by character:
// with the stops "abcd" and "c", the text "abcd" stops at "c". Of several that are
// complete at the same place, the longest wins. Work is linear in the text
// (Aho and Corasick, "Efficient string matching", CACM 18(6), 1975).
type Stops struct {
	texts []string
	nodes []stopNode // a trie; nodes[0] is the root
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

// NewStops prepares stop strings; empty ones are ignored.
func NewStops(texts []string) *Stops {
	s := &Stops{texts: texts, nodes: []stopNode{{stop: -1}}}
	for i, text := range texts {
		s.insert(text, int32(i))
	}
	s.link()
	return s
}

// insert adds a stop string to the trie.
func (s *Stops) insert(text string, index int32) {
	if text == "" {
		return
	}
	at := int32(0)
	for i := range len(text) {
		to := s.child(at, text[i])
		if to == 0 {
			to = int32(len(s.nodes))
			s.nodes = append(s.nodes, stopNode{char: text[i], depth: int32(i) + 1, sibling: s.nodes[at].child, stop: -1})
			s.nodes[at].child = to
		}
		at = to
	}
	if s.nodes[at].stop < 0 { // the first of equal strings
		s.nodes[at].stop = index
	}
}

// link sets the failure links. A node's link is one level or more above it, so
// nodes are visited by depth. Those of the first level keep the root.
func (s *Stops) link() {
	byDepth := make([]int32, 1, len(s.nodes))
	for i := 0; i < len(byDepth); i++ {
		parent := byDepth[i]
		for at := s.nodes[parent].child; at != 0; at = s.nodes[at].sibling {
			byDepth = append(byDepth, at)
			if parent == 0 {
				continue
			}
			n := &s.nodes[at]
			n.fail = s.step(s.nodes[parent].fail, n.char)
			if n.stop < 0 {
				n.stop = s.nodes[n.fail].stop
			}
		}
	}
}

// child returns the node after c, 0 if no stop goes on like that.
func (s *Stops) child(at int32, c byte) int32 {
	to := s.nodes[at].child
	for to != 0 && s.nodes[to].char != c {
		to = s.nodes[to].sibling
	}
	return to
}

// step returns the node after c was read at node at.
func (s *Stops) step(at int32, c byte) int32 {
	for {
		if to := s.child(at, c); to != 0 || at == 0 {
			return to
		}
		at = s.nodes[at].fail
	}
}

// StopMatcher looks for stop strings in text that arrives in pieces. How the text
// is cut into pieces never changes what is found or emitted.
type StopMatcher struct {
	stops   *Stops
	include bool
	state   int32  // node of the longest suffix of the text that begins a stop
	held    []byte // held[taken:] may still become a stop: as many bytes as state is deep
	taken   int
	done    bool
}

// NewMatcher returns a matcher at the start of a text. With include, the stop
// string that matched is emitted too.
func (s *Stops) NewMatcher(include bool) *StopMatcher {
	return &StopMatcher{stops: s, include: include}
}

// Push adds text. emit is all text that can no longer be part of a stop string
// and was not emitted before; if text ends on a character border, so does emit.
// On a match ok is true, matched is the stop string, emit is what was left before
// it (and the string itself with include), and all later text is ignored.
func (m *StopMatcher) Push(text string) (emit string, matched string, ok bool) {
	if m.done {
		return "", "", false
	}
	pending := len(m.held) - m.taken
	for i := range len(text) {
		m.state = m.stops.step(m.state, text[i])
		if stop := m.stops.nodes[m.state].stop; stop >= 0 {
			m.done = true
			matched = m.stops.texts[stop]
			end := pending + i + 1
			if !m.include {
				end -= len(matched)
			}
			return m.take(text, end), matched, true
		}
	}
	emit = m.take(text, pending+len(text)-int(m.stops.nodes[m.state].depth))
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
