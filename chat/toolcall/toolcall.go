package toolcall

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// Kind says what an [Event] is.
type Kind uint8

// The kinds. The events of one call are CallStart, Arguments (none or more), CallEnd;
// calls follow one another and never mix.
const (
	Content   Kind = iota // Text is part of the answer
	CallStart             // Index, Name, Unknown
	Arguments             // Index; Text is the next piece of the arguments
	CallEnd               // Index, Incomplete
)

// Event is one thing that the text turned out to say.
type Event struct {
	Kind Kind
	// Index counts the calls of one output from 0.
	Index int
	Name  string
	// Text is whole characters, unless the model wrote none.
	Text string
	// Incomplete on CallEnd: the joined arguments are no JSON value, because the output
	// ended or the model wrote none.
	Incomplete bool
	// Unknown on CallStart: no tool has this name.
	Unknown bool
}

// Tool is a function that the model may call.
type Tool struct {
	Name string
	// Parameters is its JSON schema, empty or null if it has none.
	Parameters json.RawMessage
}

// Parser reads one output. It must not be used by two goroutines at once.
type Parser interface {
	// Push takes the next text and returns what is decided.
	Push(text string) []Event
	// Flush ends the output: text held back comes out, an open call ends as Incomplete.
	// Later calls of either method return nothing.
	Flush() []Event
}

// Call is one call of a whole output.
type Call struct {
	Name      string
	Arguments string // JSON, unless Incomplete
	// Incomplete and Unknown are those of the call's events.
	Incomplete, Unknown bool
}

// machine is a format: it reads an output byte by byte and writes to its sink.
type machine interface {
	step(c byte)
	end()
}

// formats by name; vLLM's names with the exception of [Generic].
var formats = map[string]func(*sink) machine{
	"hermes":          func(s *sink) machine { return newFramed(s, hermes) },
	"llama3_json":     func(s *sink) machine { return newFramed(s, llama) },
	"llama4_json":     func(s *sink) machine { return newFramed(s, llama) },
	"mistral":         func(s *sink) machine { return newFramed(s, mistral) },
	"deepseek_v3":     func(s *sink) machine { return newFramed(s, deepseekV3) },
	"deepseek_v31":    func(s *sink) machine { return newFramed(s, deepseekV31) },
	"qwen3_xml":       func(s *sink) machine { return newXML(s) },
	"qwen3_coder":     func(s *sink) machine { return newXML(s) },
	"pythonic":        func(s *sink) machine { return newPythonic(s) },
	"llama4_pythonic": func(s *sink) machine { return newPythonic(s) },
	Generic:           func(s *sink) machine { return newFramed(s, generic) },
}

// Generic is the format that reads the shapes models fall back to, and what
// [Grammar] enforces where a model's own form can't be.
const Generic = "generic"

// Formats returns the names that [New] knows, sorted.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Set is the tools of one request, validated once for all its outputs. It does not
// change and is safe for concurrent use.
type Set struct{ byName map[string]*Tool }

// NewSet validates tools. The error is an *infer.Error.
func NewSet(tools []Tool) (*Set, error) {
	if err := validate(tools); err != nil {
		return nil, err
	}
	s := &Set{byName: make(map[string]*Tool, len(tools))}
	for i, t := range tools {
		s.byName[t.Name] = &tools[i]
	}
	return s, nil
}

// New returns a parser for one output in a format. The error is an *infer.Error.
func (s *Set) New(format string) (Parser, error) {
	build, err := lookup(format)
	if err != nil {
		return nil, err
	}
	out := &sink{tools: s.byName, fresh: true}
	return &parser{sink: out, machine: build(out)}, nil
}

// New is [NewSet] and [Set.New], for tools that are used once.
func New(format string, tools []Tool) (Parser, error) {
	set, err := NewSet(tools)
	if err != nil {
		return nil, err
	}
	return set.New(format)
}

func lookup(format string) (func(*sink) machine, error) {
	build, ok := formats[format]
	if !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "tool_call_parser",
			"tool call parser %q is not known; known are %s", format, strings.Join(Formats(), ", "))
	}
	return build, nil
}

func validate(tools []Tool) error {
	for i, t := range tools {
		switch {
		case t.Name == "" || len(t.Name) > maxName:
			return infer.Errorf(infer.CodeInvalid, "tools", "tools[%d]: the name has %d bytes; it must have 1 to %d", i, len(t.Name), maxName)
		case len(t.Parameters) > 0 && !json.Valid(t.Parameters):
			return infer.Errorf(infer.CodeInvalid, "tools", "tools[%d] (%s): the parameters are not valid JSON", i, t.Name)
		}
	}
	return nil
}

// Parse reads a whole output. The result is what joining the events of any sequence
// of pushes gives.
func Parse(format string, tools []Tool, text string) (content string, calls []Call, err error) {
	p, err := New(format, tools)
	if err != nil {
		return "", nil, err
	}
	var said, args strings.Builder
	for _, e := range append(p.Push(text), p.Flush()...) {
		switch e.Kind {
		case Content:
			said.WriteString(e.Text)
		case CallStart:
			calls = append(calls, Call{Name: e.Name, Unknown: e.Unknown})
		case Arguments:
			args.WriteString(e.Text)
		case CallEnd:
			calls[e.Index].Arguments, calls[e.Index].Incomplete = args.String(), e.Incomplete
			args.Reset()
		}
	}
	return said.String(), calls, nil
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// NewID makes the id of a call from random bytes: vLLM's chatcmpl-tool- and 32 hex
// digits, or for mistral the nine letters and digits that its templates demand
// (mistral-common, protocol/instruct/validator.py).
func NewID(format string, random [16]byte) string {
	if format != "mistral" {
		return "chatcmpl-tool-" + hex.EncodeToString(random[:])
	}
	n := binary.LittleEndian.Uint64(random[:]) // 62^9 is 1/1300 of 2^64, so no letter is favoured
	id := make([]byte, 9)
	for i := range id {
		id[i] = alphanumeric[n%62]
		n /= 62
	}
	return string(id)
}

// parser is a machine with the sink it writes to.
type parser struct {
	sink    *sink
	machine machine
	ended   bool
}

func (p *parser) Push(text string) []Event {
	if p.ended {
		return nil
	}
	for i := range len(text) {
		p.machine.step(text[i])
	}
	return p.sink.take(false)
}

func (p *parser) Flush() []Event {
	if p.ended {
		return nil
	}
	p.ended = true
	p.machine.end()
	p.sink.finish()
	return p.sink.take(true)
}
