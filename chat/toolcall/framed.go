package toolcall

import (
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/internal/marker"
)

// frame is a format in which calls are JSON between fixed strings.
type frame struct {
	// opens are the strings that announce calls; with each the strings that may follow
	// its calls, each of which is dropped once.
	opens map[string][]string
	bare  bool // an object may be a call without being announced
	list  bool // calls may stand in an array
	// needArgs: see object.
	needArgs bool
	// quiet is what may stand between calls besides white space.
	quiet string
	// header describes what stands between an open string and arguments that hold no name.
	header header
	// info: letters may follow an open string before the line ends, as in ```json.
	info bool
}

type framedState uint8

const (
	framedText   framedState = iota
	framedOpened             // behind an open string
	framedHeader             // in the header
	framedList               // in an array, before its first call
	framedNext               // in an array, behind a comma
	framedAfter              // in an array, behind a call
	framedBody
)

// framed reads a [frame].
type framed struct {
	frame
	out   *sink
	state framedState
	find  *marker.Matcher // of framedText
	held  []byte          // since an open string or bracket, as long as it may be no call
	start int             // length of the open string in held
	open  string          // the open string in force, "" if none
	owed  []string        // what may follow the last call
	list  bool            // the body is in an array
	body  body
	stop  *marker.Matcher // finds the end of a broken body
}

func newFramed(out *sink, f frame) *framed {
	m := &framed{frame: f, out: out}
	m.find = marker.New(append(m.marks(), m.brackets()...)...)
	out.quiet = f.quiet
	return m
}

// marks returns the strings that open or follow calls.
func (m *framed) marks() []string {
	var all []string
	for open, closes := range m.opens {
		all = append(all, open)
		all = append(all, closes...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (m *framed) brackets() []string {
	switch {
	case m.bare && m.frame.list:
		return []string{"{", "["}
	case m.bare:
		return []string{"{"}
	}
	return nil
}

func (m *framed) step(c byte) {
	switch m.state {
	case framedText:
		m.stepText(c)
	case framedOpened:
		m.stepOpened(c)
	case framedHeader:
		m.stepHeader(c)
	case framedList, framedNext, framedAfter:
		m.stepList(c)
	case framedBody:
		m.stepBody(c)
	}
}

func (m *framed) stepText(c byte) {
	if m.owed != nil && m.find.Held() == 0 && m.out.afterCall() {
		switch c {
		case '{': // a further call under the same open string
			m.begin(c)
			return
		case '}': // one brace too many is a frequent slip
			return
		}
	}
	released, hit := m.find.Step(c)
	m.out.content(released...)
	if hit != "" {
		m.mark(hit)
	}
}

// mark takes an open or closing string or bracket in text.
func (m *framed) mark(hit string) {
	if _, opens := m.opens[hit]; opens && !m.closes(hit) {
		m.state, m.open, m.held, m.start = framedOpened, hit, append(m.held[:0], hit...), len(hit)
		return
	}
	switch {
	case m.closes(hit):
		m.out.dropBlanks()
		if m.owed = slices.DeleteFunc(m.owed, func(s string) bool { return s == hit }); len(m.owed) == 0 {
			m.owed = nil
		}
	case hit == "{":
		m.open = ""
		m.begin('{')
	case hit == "[":
		m.open, m.held, m.start, m.state = "", append(m.held[:0], '['), 1, framedList
	default:
		m.out.content([]byte(hit)...)
	}
}

// closes says that the string belongs to the call just read.
func (m *framed) closes(hit string) bool { return m.out.afterCall() && slices.Contains(m.owed, hit) }

func (m *framed) stepOpened(c byte) {
	info := m.info && (c >= 'a' && c <= 'z' || c == '_') && !strings.ContainsRune(string(m.held), '\n')
	switch {
	case (isBlank(c) || info) && len(m.held) < maxBlanks:
		m.held = append(m.held, c)
	case c == '{':
		m.begin(c)
	case c == '[' && m.frame.list:
		m.held, m.state = append(m.held, c), framedList
	case m.header != nil:
		m.state = framedHeader
		m.stepHeader(c)
	default:
		m.reject(c)
	}
}

func (m *framed) stepHeader(c byte) {
	raw := trimBlanks(string(append(m.held[m.start:], c)))
	name, found := m.header.match(raw)
	switch {
	case found == matchNo || len(raw) > 2*maxName:
		m.reject(c)
	case found == matchPart:
		m.held = append(m.held, c)
	default:
		m.held = m.held[:0]
		m.list = false
		m.run(newRawArgs(m.out, name), c)
	}
}

func (m *framed) stepList(c byte) {
	first := m.state == framedList
	switch {
	case isBlank(c) && len(m.held) < maxBlanks:
		if first {
			m.held = append(m.held, c)
		}
	case c == '{' && m.state != framedAfter:
		m.list = true
		m.begin(c)
	case c == ',' && m.state == framedAfter:
		m.state = framedNext
	case c == ']' && !first:
		m.leave()
	default:
		m.reject(c)
	}
}

// begin starts reading an object at its brace.
func (m *framed) begin(c byte) { m.run(newObject(m.out, m.needArgs), c) }

// run hands the next byte to a new body.
func (m *framed) run(b body, c byte) {
	m.state, m.body, m.stop = framedBody, b, nil
	m.stepBody(c)
}

func (m *framed) stepBody(c byte) {
	if m.stop == nil {
		m.feed(c)
		return
	}
	released, hit := m.stop.Step(c)
	m.refeed(released)
	if hit != "" {
		m.body.end()
		m.leave()
		m.mark(hit)
	}
}

// feed gives one byte to the body.
func (m *framed) feed(c byte) {
	switch m.body.step(c) {
	case more:
		if m.out.open {
			m.held = m.held[:0]
		} else if m.held = append(m.held, c); len(m.held) > maxHeld {
			m.giveUp()
		}
	case done:
		m.held = m.held[:0]
		if m.list {
			m.state = framedAfter
			return
		}
		m.leave()
	case bad:
		if m.out.open {
			m.body.loosen()
			m.stop = marker.New(m.marks()...) // any of them ends what has no end of its own
			m.stepBody(c)
			return
		}
		m.giveUp()
		m.step(c)
	}
}

// refeed goes on with bytes that a matcher held; the state may change on the way.
func (m *framed) refeed(held []byte) {
	for _, c := range slices.Clone(held) {
		if m.state == framedBody {
			m.feed(c)
		} else {
			m.step(c)
		}
	}
}

// leave goes back to text behind a call.
func (m *framed) leave() {
	m.state, m.owed, m.list, m.held = framedText, append([]string{}, m.opens[m.open]...), false, m.held[:0]
}

// giveUp makes text of everything held: it was no call.
func (m *framed) giveUp() {
	held := m.held
	m.held, m.list, m.state, m.owed = nil, false, framedText, nil
	m.out.content(held...)
}

// reject makes text of the open string only; what followed it is read again, as it may
// hold another one.
func (m *framed) reject(c byte) {
	held, n := m.held, min(m.start, len(m.held))
	m.held, m.list, m.state, m.owed = nil, false, framedText, nil
	m.out.content(held[:n]...)
	for _, b := range held[n:] {
		m.step(b)
	}
	m.step(c)
}

func (m *framed) end() {
	if m.state == framedBody && m.stop != nil {
		m.refeed(m.stop.Flush())
	}
	switch m.state {
	case framedBody:
		if !m.body.end() {
			m.giveUp()
		}
	default:
		m.out.content(m.held...)
	}
	m.out.content(m.find.Flush()...)
}
