package grammar

import (
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// The limits on what comes from outside. Every error names its limit.
const (
	maxSourceBytes  = 256 << 10 // of a schema, regex, grammar, or all choices together
	maxNesting      = 100       // of JSON in a schema, and of parentheses
	maxChoices      = 10_000    // strings of a choice, values of an enum
	maxProperties   = 1_000     // of one object
	maxSteps        = 100_000   // of compiling: schemas visited and merged, expressions built
	maxNodes        = 160_000   // of the machine
	maxProgramBytes = 8 << 20   // of the machine
	maxConditions   = 9         // patterns, formats and lookaheads of one string
	maxRepeat       = 1 << 20   // minLength, maxItems, {m,n}
	maxThreads      = 1_024     // alive at once in one text
	maxNumberDigits = 40        // of a bound of a number
	maxTokenBytes   = 1_024     // longer tokens are never allowed
)

// The limits on the work of masks and of moving on, in steps: a thread moved by a
// byte, or compared; some 15 ns each. A text has tokenWork for every token, and may
// be textWork ahead of that. Beyond it the text ends with an error. Patterns such as
// ".{1,50}, .{1,50}" take four walks over the vocabulary at their worst token and
// one for each. With the 600,000 nodes of a vocabulary of 150,000 tokens tokenWork
// is about 9 ms and textWork half a second.

// unlimited is for work that may take what it takes.
const unlimited = math.MaxInt

// tokenWork is how many steps a token may take again and again.
func (v *Vocabulary) tokenWork() int { return 100_000 + len(v.trie) }

// textWork is how many steps a text may take above tokenWork for each token.
func (v *Vocabulary) textWork() int { return 1_000_000 + 64*len(v.trie) }

// walkLimit is how many steps one walk may take.
func (v *Vocabulary) walkLimit() int { return 100_000 + 16*len(v.trie) }

// MaxRollback is how many tokens [Matcher.Rollback] can undo.
const MaxRollback = 256

// MaxDepth is how deep the stack of a text may become: nested rules of a
// grammar, or references of a schema.
const MaxDepth = 256

// anyDepth is how deep a value may nest that the schema leaves free.
const anyDepth = 16

// Options name the source in errors and bound memory.
type Options struct {
	// Param is the request field at fault, for infer.Error.Param.
	Param string
	// Path stands before the place in messages, as
	// "response_format.json_schema.schema". "" means Param.
	Path string
	// CacheBytes bounds the masks kept per vocabulary. 0 means 8 MiB.
	CacheBytes int
	// Pause is called after every 100,000 units of the work of compiling, a millisecond
	// or two, with all that was spent. Compiling waits for it, and ends with its error.
	Pause func(spent int) error
}

const defaultCacheBytes = 8 << 20

func (o Options) path() string {
	if o.Path == "" {
		return o.Param
	}
	return o.Path
}

// invalid builds the error for a source at fault; where continues the path.
func (o Options) invalid(where, format string, args ...any) *infer.Error {
	e := infer.Errorf(infer.CodeInvalid, o.Param, format, args...)
	if at := o.path() + where; at != "" {
		e.Message = at + ": " + e.Message
	}
	return e
}

func (o Options) checkSize(n int) error {
	if n > maxSourceBytes {
		return o.invalid("", "%d bytes are more than the limit of %d", n, maxSourceBytes)
	}
	return nil
}
