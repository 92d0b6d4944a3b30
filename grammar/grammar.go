package grammar

import (
	"sync"

	"github.com/troupe-llm/troupe/infer"
)

// Grammar is a compiled constraint. It is safe for concurrent use and immutable
// but for its cache of masks, which is bounded by Options.CacheBytes for each
// of the last few vocabularies.
type Grammar struct {
	p    *program
	opts Options
	size int

	mu       sync.Mutex
	bindings []*binding // the newest last
}

// maxBindings bounds the vocabularies that a grammar keeps masks for.
const maxBindings = 4

func newGrammar(p *program, o Options) *Grammar {
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCacheBytes
	}
	return &Grammar{p: p, opts: o, size: p.size() + o.CacheBytes}
}

// Size is about how many bytes g may take, with all the masks that it keeps for
// one vocabulary.
func (g *Grammar) Size() int { return g.size }

// compileRule makes the grammar whose text is root.
func (b *builder) compileRule(root *expr) (*Grammar, error) {
	r := b.newRule()
	b.exprs[r], b.names[r] = root, "root"
	p, err := b.build(r)
	if err != nil {
		return nil, err
	}
	return newGrammar(p, b.opts), nil
}

// NewMatcher starts a text over the tokens of v.
func (g *Grammar) NewMatcher(v *Vocabulary) *Matcher { return newMatcher(g.bind(v)) }

// Over returns the grammar of the texts over the tokens of v.
func (g *Grammar) Over(v *Vocabulary) *Bound { return &Bound{g, v} }

// Bound is a Grammar over one vocabulary. It implements [infer.Grammar].
type Bound struct {
	Grammar    *Grammar
	Vocabulary *Vocabulary
}

var _ infer.Grammar = (*Bound)(nil)

// NewMatcher implements [infer.Grammar].
func (b *Bound) NewMatcher() infer.Matcher { return b.Grammar.NewMatcher(b.Vocabulary) }

func (g *Grammar) bind(v *Vocabulary) *binding {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.bindings {
		if b.v == v {
			return b
		}
	}
	if len(g.bindings) == maxBindings {
		g.bindings = append(g.bindings[:0:0], g.bindings[1:]...)
	}
	b := newBinding(g.p, v, g.opts)
	g.bindings = append(g.bindings, b)
	return b
}

// CompileChoice allows exactly the given strings.
func CompileChoice(choices []string, o Options) (*Grammar, error) {
	if len(choices) == 0 {
		return nil, o.invalid("", "there is no choice")
	}
	if len(choices) > maxChoices {
		return nil, o.invalid("", "%d choices are more than the limit of %d", len(choices), maxChoices)
	}
	size := 0
	for _, c := range choices {
		size += len(c)
	}
	if err := o.checkSize(size); err != nil {
		return nil, err
	}
	return compile(o, func(b *builder) (*Grammar, error) {
		b.spend(8 * size)
		return b.compileRule(literals(choices))
	})
}
