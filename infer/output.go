package infer

import "encoding/json"

// ToolUse is what a model may call while it answers a request.
type ToolUse struct {
	Tools []Tool
	// Forced: the output is calls and nothing else. Then Name is the only function
	// that may be called, "" for any.
	Forced bool
	Name   string
	Single bool // at most one call
}

// Tool is a function that the client runs.
type Tool struct {
	Name       string
	Parameters json.RawMessage // JSON schema of its arguments, nil = not given
	Param      string          // the request's field that holds Parameters, for errors
}

// PieceKind says what a piece of an output is.
type PieceKind uint8

// The kinds. The pieces of one call are PieceCall, PieceArguments (none or more) and
// PieceCallEnd; calls follow one another and never mix.
const (
	PieceContent   PieceKind = iota // Text is part of the answer
	PieceReasoning                  // Text is part of the thoughts before it
	PieceCall                       // Index, ID, Name: a call begins
	PieceArguments                  // Index; Text is the next part of the arguments
	PieceCallEnd                    // Index, Incomplete
	// PieceOutput is no output of the model: ID, Text and IsFailed are the result of a
	// call that the server ran. It comes behind all other pieces of its turn.
	PieceOutput
)

// Piece is some output that is of one kind.
type Piece struct {
	Kind  PieceKind
	Index int // of the call in its output, from 0
	ID    string
	Name  string
	Text  string
	// Incomplete: the arguments are no JSON value, because the output was cut.
	Incomplete bool
	IsFailed   bool // Text says why the call gave nothing
}

// Parsed is the text of a delta taken apart.
type Parsed struct{ Pieces []Piece }
