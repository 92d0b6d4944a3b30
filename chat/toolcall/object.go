package toolcall

import (
	"encoding/json"
	"strings"
)

// body reads the part of a call behind its marker.
type body interface {
	// step takes the next byte. done means that the call has ended, its last event
	// included. bad means that this is no JSON: if the call has not started, there is none;
	// if it has, loosen and give the byte again.
	step(c byte) verdict
	// loosen makes step take what is no JSON, to the place where the brackets are closed.
	loosen()
	// end is the end of the output or a marker; it says whether there was a call.
	end() bool
}

// rawArgs is the body of formats that give the name first: the arguments alone.
type rawArgs struct {
	out *sink
	value
}

func newRawArgs(out *sink, name string) *rawArgs {
	out.start(name)
	return &rawArgs{out: out, value: value{put: out.arg}}
}

func (r *rawArgs) step(c byte) verdict {
	v := r.value.step(c)
	if v == done {
		r.out.stop(r.loose)
	}
	return v
}

func (r *rawArgs) end() bool {
	r.out.stop(true)
	return true
}

type objectState uint8

const (
	objectOpen objectState = iota
	objectKeyOrEnd
	objectKey
	objectColon
	objectValue
	objectName  // the value of "name"
	objectArgs  // the value of "arguments"
	objectOther // any other value, or a second one of those
	objectAfter
	objectJunk // no JSON any more, behind the arguments
)

// object is the body {"name": ..., "arguments": {...}}; "parameters" means the same.
// Keys may come in any order, others are passed over.
type object struct {
	out *sink
	// needArgs: without arguments that are an object, or a string that may hold one, this
	// is no call. Otherwise they default to {}.
	needArgs bool

	state   objectState
	text    []byte   // raw key or name
	inner   *scanner // reads keys and the name
	other   *value   // objectOther
	name    string
	started bool

	args     *value // objectArgs
	argText  []byte // arguments that must wait: for the name, or for their end
	argWait  bool   // a string or a literal: what it means shows at its end
	gotArgs  bool
	argsDone bool
}

func newObject(out *sink, needArgs bool) *object { return &object{out: out, needArgs: needArgs} }

func (o *object) step(c byte) verdict {
	switch o.state {
	case objectKey, objectName:
		return o.stringByte(c)
	case objectArgs:
		return o.argByte(c)
	case objectOther:
		return o.otherByte(c)
	case objectJunk:
		return o.junk(c)
	}
	if isBlank(c) {
		return more
	}
	return o.token(c)
}

// token takes a byte between keys and values.
func (o *object) token(c byte) verdict {
	switch {
	case o.state == objectOpen && c == '{':
		o.state = objectKeyOrEnd
	case o.state == objectKeyOrEnd && c == '"':
		o.read(objectKey, c)
	case o.state == objectColon && c == ':':
		o.state = objectValue
	case o.state == objectValue:
		return o.valueStart(c)
	case o.state == objectAfter && c == ',':
		o.state = objectKeyOrEnd
	case (o.state == objectAfter || o.state == objectKeyOrEnd) && c == '}':
		return o.close()
	default:
		return bad
	}
	return more
}

// read begins a key or the name at its quote.
func (o *object) read(state objectState, c byte) {
	o.state, o.inner, o.text = state, &scanner{}, append(o.text[:0], c)
	o.inner.step(c)
}

func (o *object) stringByte(c byte) verdict {
	v := o.inner.step(c)
	if v == bad || c < ' ' || len(o.text) > 4*maxName {
		return bad
	}
	o.text = append(o.text, c)
	switch {
	case v == more:
	case o.state == objectKey:
		o.state = objectColon
	default:
		o.state = objectAfter
		if json.Unmarshal(o.text, &o.name) != nil || o.name == "" || len(o.name) > maxName {
			return bad
		}
		if !o.needArgs || o.gotArgs {
			o.start()
		}
	}
	return more
}

// valueStart takes the first byte of a value.
func (o *object) valueStart(c byte) verdict {
	switch key := string(o.text); {
	case key == `"name"` && o.name == "" && c == '"':
		o.read(objectName, c)
		return more
	case (key == `"arguments"` || key == `"parameters"`) && !o.gotArgs:
		if o.needArgs && c != '{' && c != '"' {
			return bad
		}
		o.gotArgs, o.argWait = true, c != '{' && c != '['
		o.state, o.args = objectArgs, &value{put: o.argPut}
		if o.name != "" && !o.argWait {
			o.start()
		}
		return o.argByte(c)
	}
	o.state, o.other = objectOther, &value{put: func(byte) {}}
	return o.otherByte(c)
}

func (o *object) otherByte(c byte) verdict {
	switch o.other.step(c) {
	case bad:
		return bad
	case done:
		o.state = objectAfter
	case over:
		o.state = objectAfter
		return o.step(c)
	}
	return more
}

func (o *object) argByte(c byte) verdict {
	v := o.args.step(c)
	switch v {
	case bad:
		return bad
	case more:
		return o.bound()
	case done, over:
		o.argsDone, o.state = true, objectAfter
		if o.argWait && !o.settle() {
			return bad
		}
		if v == over {
			return o.step(c)
		}
	}
	return more
}

// bound keeps arguments that wait for their end from growing without one. What waits for
// the name is text held back, which framed bounds.
func (o *object) bound() verdict {
	if o.started && len(o.argText) > maxHeld {
		o.argWait = false
		o.release()
	}
	return more
}

// argPut is where the arguments go.
func (o *object) argPut(c byte) {
	if o.started && !o.argWait {
		o.out.arg(c)
		return
	}
	o.argText = append(o.argText, c)
}

// settle decides what arguments mean that are no object: a string that holds one is
// that object, null is none, the rest stays what it is. It returns false if they make
// no call.
func (o *object) settle() bool {
	o.argWait = false
	var held string
	switch {
	case string(o.argText) == "null":
		o.argText = []byte("{}")
	case json.Unmarshal(o.argText, &held) == nil && strings.HasPrefix(trimBlanks(held), "{") && json.Valid([]byte(held)):
		o.argText = []byte(held)
	case o.needArgs:
		return false
	}
	switch {
	case o.started:
		o.release()
	case o.name != "":
		o.start()
	}
	return true
}

// start emits the start of the call and the arguments that waited for it.
func (o *object) start() {
	if o.started {
		return
	}
	o.started = true
	o.out.start(o.name)
	if !o.argWait {
		o.release()
	}
}

func (o *object) release() {
	o.out.args(o.argText...)
	o.argText = nil
}

// close takes the brace that closes the object.
func (o *object) close() verdict {
	if o.name == "" || o.needArgs && !o.gotArgs {
		return bad
	}
	o.start()
	if !o.gotArgs {
		o.out.args('{', '}')
	}
	o.out.stop(o.loose())
	return done
}

func (o *object) loose() bool { return o.args != nil && o.args.loose }

// loosen: broken arguments go on as they are, the rest is read to its closing brace.
func (o *object) loosen() {
	switch o.state {
	case objectArgs:
		o.args.loosen()
		return
	case objectOther:
		o.other.loosen()
		o.other.depth++ // the object itself
	default:
		o.other = &value{put: func(byte) {}, loose: true, depth: 1, str: o.state == objectKey}
	}
	o.state = objectJunk
}

func (o *object) junk(c byte) verdict {
	if o.other.step(c) == done {
		o.out.stop(!o.argsDone || o.loose())
		return done
	}
	return more
}

func (o *object) end() bool {
	if !o.started && o.name != "" && o.out.known(o.name) {
		o.start()
	}
	if !o.started {
		return false
	}
	o.release()
	o.out.stop(!o.argsDone || o.loose())
	return true
}
