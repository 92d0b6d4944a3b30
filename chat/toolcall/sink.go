package toolcall

import (
	"strings"

	"github.com/troupe-llm/troupe/chat/internal/marker"
)

const (
	// maxName bounds a function's or parameter's name, in bytes.
	maxName = 256
	// maxHeld bounds text held back until it is clear whether it is a call, in bytes. Only
	// arguments that stand before their name, and values that need their end to get a type,
	// come near it.
	maxHeld = 1 << 20
	// maxBlanks bounds white space held back, in bytes.
	maxBlanks = 512
	// maxDepth bounds the nesting of arguments.
	maxDepth = 512
)

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func trimBlanks(s string) string { return strings.TrimLeft(s, " \n\t\r") }

// sink collects the events of a machine.
type sink struct {
	tools map[string]*Tool // by name; not ours to change

	events []Event
	text   []byte // of kind kind, not yet an event
	kind   Kind

	calls int  // started
	open  bool // the last of them has not ended

	// White space that is all there is before, between or behind calls is not content.
	// It waits here until more than white space comes.
	blanks []byte
	fresh  bool   // nothing but blanks since the start or the last call
	quiet  string // what else counts as white space behind a call
}

// known says whether a tool has the name.
func (s *sink) known(name string) bool { return s.tools[name] != nil }

// afterCall says that a call ended and only blanks followed.
func (s *sink) afterCall() bool { return s.fresh && s.calls > 0 && !s.open }

// said tells that content came before.
func (s *sink) said() bool { return !s.fresh || s.calls > 0 }

func (s *sink) content(text ...byte) {
	for _, c := range text {
		if s.fresh {
			blank := isBlank(c) || s.calls > 0 && strings.IndexByte(s.quiet, c) >= 0
			if blank && len(s.blanks) < maxBlanks {
				s.blanks = append(s.blanks, c)
				continue
			}
			s.fresh = false
			s.add(Content, s.blanks...)
			s.blanks = s.blanks[:0]
		}
		s.add(Content, c)
	}
}

// dropBlanks forgets white space behind a call, because more that belongs to it follows.
func (s *sink) dropBlanks() { s.blanks = s.blanks[:0] }

// start begins a call.
func (s *sink) start(name string) {
	s.cut(len(s.text))
	s.dropBlanks()
	s.events = append(s.events, Event{Kind: CallStart, Index: s.calls, Name: name, Unknown: !s.known(name)})
	s.calls++
	s.open, s.fresh = true, true
}

// args adds to the arguments of the open call.
func (s *sink) args(text ...byte) { s.add(Arguments, text...) }

// arg is args for one byte.
func (s *sink) arg(c byte) { s.add(Arguments, c) }

// stop ends the open call.
func (s *sink) stop(incomplete bool) {
	s.cut(len(s.text))
	s.events = append(s.events, Event{Kind: CallEnd, Index: s.calls - 1, Incomplete: incomplete})
	s.open = false
}

// finish ends the output.
func (s *sink) finish() {
	if s.open {
		s.stop(true)
	}
	if s.calls == 0 {
		s.add(Content, s.blanks...)
	}
	s.blanks = nil
}

func (s *sink) add(kind Kind, text ...byte) {
	if kind != s.kind {
		s.cut(len(s.text))
		s.kind = kind
	}
	s.text = append(s.text, text...)
}

// cut makes an event of the first n bytes of text.
func (s *sink) cut(n int) {
	if n == 0 {
		return
	}
	e := Event{Kind: s.kind, Text: string(s.text[:n])}
	if s.kind == Arguments {
		e.Index = s.calls - 1
	}
	s.events = append(s.events, e)
	s.text = s.text[:copy(s.text, s.text[n:])]
}

// take hands out the events, without half a character unless it is the last.
func (s *sink) take(last bool) []Event {
	n := len(s.text)
	if !last {
		n = marker.WholeRunes(s.text)
	}
	s.cut(n)
	events := s.events
	s.events = nil
	return events
}
