package infer

// Grammar says which texts a sequence may generate. It is immutable and safe for
// concurrent use; package grammar makes them.
type Grammar interface {
	// NewMatcher returns a matcher in front of a sequence's first token.
	NewMatcher() Matcher
}

// Matcher follows one sequence through a Grammar. One goroutine at a time uses it.
type Matcher interface {
	// Mask sets bit i of dst, i%64 of word i/64, for each token i that may come
	// next, and clears all others. The end-of-sequence tokens are among them when
	// the text is complete. dst has a bit for every token of the vocabulary.
	Mask(dst []uint64)
	// Next brings the matcher to the end of output, of which it has accepted a
	// beginning or a continuation, and writes into dst what Mask would; nil = no mask.
	// It reports false if b does not allow that much. If b.Late is set then, the
	// matcher goes on by itself, and nothing but Next and NumAccepted may be called
	// until Next, with the same output, reports true.
	Next(output []int32, dst []uint64, b *MaskBudget) (ok bool, err error)
	// Accept advances by a token. An error leaves the matcher where it was.
	Accept(token int32) error
	// Rollback undoes the last n tokens accepted.
	Rollback(n int)
	// NumAccepted counts the tokens accepted and not undone.
	NumAccepted() int
}

// MaskBudget bounds the work of matchers in a step.
type MaskBudget struct {
	Steps int // left, of some ten nanoseconds each
	// Late is called, from any goroutine, when a matcher that went on by itself has
	// come to its end.
	Late func()
}

// StructuredOutput asks for text of a certain form; exactly one of the fields is
// set.
type StructuredOutput struct {
	Param      string   // the request's field, for errors
	Path       string   // of the form in it, for their messages: response_format.json_schema.schema
	JSONObject bool     // any JSON object
	JSONSchema []byte   // JSON that the schema allows
	Regex      string   // text that the expression matches as a whole
	Choice     []string // one of these texts
	EBNF       string   // a text of the grammar's rule root
}
