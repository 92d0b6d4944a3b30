package jinja

import (
	"fmt"
	"time"
)

// Limits bound one rendering. All fields must be set.
type Limits struct {
	MaxOutput int           // bytes of the result, and of any string on the way
	MaxBytes  int           // bytes built in total, the result and everything on the way
	MaxSteps  int           // expressions, statements and elements looked at
	Timeout   time.Duration // wall time
	Now       func() time.Time
}

// maxDepth bounds nested evaluation: expressions in expressions, calls in calls.
const maxDepth = 3000

// maxNesting bounds how deep lists and dicts may be nested where a value is
// printed, compared or encoded.
const maxNesting = 400

// Error is a failure of a template: of its syntax, or while it ran.
type Error struct {
	Line    int    // 1-based line of the template, 0 if not known
	Message string // for the client
	Raised  bool   // by the template's own raise_exception
	TooLong bool   // the text grew past Limits.MaxOutput
}

// Error implements error.
func (e *Error) Error() string {
	if e.Raised || e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// run is the state of one rendering.
type run struct {
	lim      Limits
	vars     *Dict // the caller's variables
	deadline time.Time
	steps    int
	bytes    int
	checked  int // r.bytes when the time was last looked at
	depth    int
	line     int // of the statement that runs
}

func (r *run) errorf(format string, a ...any) error {
	return &Error{Line: r.line, Message: fmt.Sprintf(format, a...)}
}

func (r *run) tooLong() error {
	return &Error{Line: r.line, TooLong: true, Message: fmt.Sprintf("the text grows past the limit of %d bytes", r.lim.MaxOutput)}
}

// step counts one unit of work.
func (r *run) step() error {
	r.steps++
	if r.steps > r.lim.MaxSteps {
		return r.errorf("the template was stopped after %d steps", r.lim.MaxSteps)
	}
	if r.steps%256 == 0 {
		return r.checkTime()
	}
	return nil
}

// charge counts n bytes of new memory.
func (r *run) charge(n int) error {
	r.bytes += n
	if n < 0 || r.bytes > r.lim.MaxBytes {
		return r.errorf("the template was stopped after building %d bytes of text", r.lim.MaxBytes)
	}
	if r.bytes-r.checked > 1<<20 {
		r.checked = r.bytes
		return r.checkTime()
	}
	return nil
}

// scan charges the time it takes to read through t, as a share of its bytes.
func (r *run) scan(t Text) error { return r.charge(len(t.s) / 32) }

// elements counts n list elements: a step and their memory each.
func (r *run) elements(n int) error {
	const size = 48 // a Value and the small object behind it
	if n > r.lim.MaxSteps-r.steps {
		return r.errorf("the template was stopped after %d steps", r.lim.MaxSteps)
	}
	r.steps += n
	return r.charge(n * size)
}

func (r *run) checkTime() error {
	if time.Now().After(r.deadline) {
		return r.errorf("the template was stopped after %v", r.lim.Timeout)
	}
	return nil
}

// enter counts one level of nesting; leave takes it back.
func (r *run) enter() error {
	r.depth++
	if r.depth > maxDepth {
		return r.errorf("the template nests deeper than %d levels", maxDepth)
	}
	return r.step()
}

func (r *run) leave() { r.depth-- }

// scope holds the variables of a block and leads to those around it.
type scope struct {
	vars   []variable
	parent *scope
}

type variable struct {
	name string
	v    Value
}

func (s *scope) lookup(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		for i := range s.vars {
			if s.vars[i].name == name {
				return s.vars[i].v, true
			}
		}
	}
	return nil, false
}

func (s *scope) set(name string, v Value) {
	for i := range s.vars {
		if s.vars[i].name == name {
			s.vars[i].v = v
			return
		}
	}
	if s.vars == nil {
		s.vars = make([]variable, 0, 4) // a loop's scope: loop, the item, what the body sets
	}
	s.vars = append(s.vars, variable{name, v})
}

// Template is a parsed template. It is never changed, so any number of
// goroutines may render it.
type Template struct{ body []stmt }

// Render runs the template with the given variables. A failure is an *Error.
func (t *Template) Render(vars *Dict, lim Limits) (Text, error) {
	r := &run{lim: lim, vars: vars, deadline: time.Now().Add(lim.Timeout)}
	return r.capture(t.body, &scope{})
}
