package reasoning

import "slices"

// Markers returns the strings around the thoughts of a family, which a tokenizer may
// have as special tokens, which are no text otherwise.
func Markers(name string) []string { return slices.Concat(families[name].starts, families[name].ends) }

// Block says where the thoughts of an output stand, for those who must let them
// pass before they look at the answer.
type Block struct {
	None         bool // there are none
	Inside       bool // the output begins within them
	Starts, Ends []string
}

// BlockOf returns what is known of the thoughts before there is any output.
func BlockOf(name string, o Options) (Block, error) {
	f, err := lookup(name)
	if err != nil {
		return Block{}, err
	}
	opening := f.opening(o)
	return Block{None: opening == openClosed, Inside: opening == openInside, Starts: f.starts, Ends: f.ends}, nil
}
