package actors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"strconv"
	"sync"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// grammars compiles what requests ask their output to be like, and remembers the
// latest: clients send the same schema again and again. It is safe for
// concurrent use.
type grammars struct {
	vocabulary func() *grammar.Vocabulary // made when it is first needed
	lanes      compileLanes

	mu     sync.Mutex
	byKey  map[grammarKey]*compilation
	oldest []grammarKey // those compiled, in that order
	bytes  int          // of those, as grammar.Size has it
}

type grammarKey [sha256.Size]byte

// maxGrammars and maxGrammarBytes bound the grammars remembered, and maskCacheBytes the masks that each keeps.
const (
	maxGrammars     = 64
	maxGrammarBytes = 256 << 20
	maskCacheBytes  = 2 << 20
)

func newGrammars(t *tokenizer.Tokenizer, vocabSize int, eosTokenIDs []int32) *grammars {
	return &grammars{
		byKey: map[grammarKey]*compilation{},
		lanes: newCompileLanes(),
		vocabulary: sync.OnceValue(func() *grammar.Vocabulary {
			return grammar.VocabularyOf(t, vocabSize, eosTokenIDs)
		}),
	}
}

// compile returns the grammar that a request asks for; nil asks for none. Its
// errors are the client's. It ends soon after ctx.
func (g *grammars) compile(ctx context.Context, s *infer.StructuredOutput) (infer.Grammar, *infer.Error) {
	if s == nil {
		return nil, nil
	}
	return g.remember(ctx, keyOf(s), func(pause pause) (*grammar.Grammar, error) { return compileGrammar(s, pause) })
}

// compileFrame is compile for calls.
func (g *grammars) compileFrame(ctx context.Context, f *grammar.Frame) (infer.Grammar, *infer.Error) {
	return g.remember(ctx, keyOfFrame(f), func(pause pause) (*grammar.Grammar, error) {
		return grammar.CompileFrame(*f, grammar.Options{Param: "tools", CacheBytes: maskCacheBytes, Pause: pause})
	})
}

// remember returns the grammar of a key, which is compiled if it is not known. Of many
// who ask at once one compiles; if its client leaves, another one goes on.
func (g *grammars) remember(ctx context.Context, key grammarKey, compile func(pause) (*grammar.Grammar, error)) (infer.Grammar, *infer.Error) {
	for {
		if err := givenUp(ctx); err != nil {
			return nil, err
		}
		c, mine := g.find(key)
		if mine {
			g.run(ctx, key, c, compile)
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			continue // givenUp says so
		}
		switch {
		case c.err == nil:
			return c.grammar.Over(g.vocabulary()), nil
		case !errors.Is(c.err, errGivenUp):
			return nil, infer.AsError(c.err)
		}
	}
}

// compilation is a grammar that is compiled, or will be.
type compilation struct {
	done    chan struct{} // closed when the rest is valid
	grammar *grammar.Grammar
	err     error
}

// find returns the compilation of a key; mine says that the caller has to run it.
func (g *grammars) find(key grammarKey) (c *compilation, mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c = g.byKey[key]; c != nil {
		return c, false
	}
	c = &compilation{done: make(chan struct{}), err: errors.New("compiling a grammar has panicked")}
	g.byKey[key] = c
	return c, true
}

// run compiles and remembers what came of it, unless that is an error.
func (g *grammars) run(ctx context.Context, key grammarKey, c *compilation, compile func(pause) (*grammar.Grammar, error)) {
	defer close(c.done)
	defer g.keep(key, c)
	t := turn{ctx: ctx, lanes: &g.lanes}
	defer t.leave()
	c.grammar, c.err = compile(t.pause)
}

func (g *grammars) keep(key grammarKey, c *compilation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.err != nil {
		delete(g.byKey, key)
		return
	}
	g.oldest = append(g.oldest, key)
	g.bytes += c.grammar.Size()
	for len(g.oldest) > maxGrammars || g.bytes > maxGrammarBytes {
		g.bytes -= g.byKey[g.oldest[0]].grammar.Size()
		delete(g.byKey, g.oldest[0])
		g.oldest = append(g.oldest[:0], g.oldest[1:]...)
	}
}

// keyOf hashes everything that tells one grammar from another, lengths included.
func keyOf(s *infer.StructuredOutput) grammarKey {
	h := keyHash{sha256.New()}
	part := h.part
	part('p', s.Param)
	part('a', s.Path)
	if s.JSONObject {
		part('o', "")
	}
	part('s', string(s.JSONSchema))
	part('r', s.Regex)
	part('g', s.EBNF)
	for _, c := range s.Choice {
		part('c', c)
	}
	return h.key()
}

func keyOfFrame(f *grammar.Frame) grammarKey {
	h := keyHash{sha256.New()}
	for _, text := range []string{f.Begin, f.Separator, f.End, strconv.Itoa(f.Max)} {
		h.part('f', text)
	}
	for i := range f.Values {
		h.value('v', &f.Values[i])
	}
	if f.Answer != nil {
		h.value('w', f.Answer)
	}
	return h.key()
}

// keyHash hashes texts with what kind they are of and their lengths.
type keyHash struct{ hash.Hash }

func (h keyHash) part(kind byte, text string) {
	var head [9]byte
	head[0] = kind
	binary.LittleEndian.PutUint64(head[1:], uint64(len(text)))
	h.Write(head[:])
	h.Write([]byte(text))
}

func (h keyHash) value(kind byte, v *grammar.FramedValue) {
	for _, text := range []string{v.Prefix, v.Suffix, v.Param, v.Path, string(v.Schema)} {
		h.part(kind, text)
	}
}

func (h keyHash) key() (key grammarKey) {
	h.Sum(key[:0])
	return key
}

func compileGrammar(s *infer.StructuredOutput, pause pause) (*grammar.Grammar, error) {
	o := grammar.Options{Param: s.Param, Path: s.Path, CacheBytes: maskCacheBytes, Pause: pause}
	switch {
	case s.JSONObject:
		return grammar.CompileJSONObject(o)
	case s.JSONSchema != nil:
		return grammar.CompileJSONSchema(s.JSONSchema, o)
	case s.Choice != nil:
		return grammar.CompileChoice(s.Choice, o)
	case s.EBNF != "":
		return grammar.CompileEBNF(s.EBNF, o)
	}
	return grammar.CompileRegex(s.Regex, o)
}
