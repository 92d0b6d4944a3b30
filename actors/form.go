package actors

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

// form is what a grammar is made of. A compiled grammar does not cross nodes: its
// form does, as JSON, and the worker compiles it, or finds it among its latest.
type form struct {
	Structured *infer.StructuredOutput // one of these two
	Frame      *grammar.Frame
	Thoughts   *thoughtForm // nil = none may pass before it
}

// thoughtForm is what a thinkingGrammar adds.
type thoughtForm struct {
	Inside bool
	Starts []int32
	Ends   [][]byte
}

// formedGrammar is a grammar that still knows its form.
type formedGrammar struct {
	infer.Grammar
	form form
}

// withForm remembers the form of a grammar that the engine has made; nil stays nil.
func withForm(g infer.Grammar, f form) infer.Grammar {
	if g == nil {
		return nil
	}
	if t, ok := g.(*thinkingGrammar); ok {
		f.Thoughts = &thoughtForm{Inside: t.inside, Starts: t.starts, Ends: t.ends}
	}
	return &formedGrammar{Grammar: g, form: f}
}

// wireForm is a grammar on its way to a worker; nil = there is none.
func wireForm(g infer.Grammar) []byte {
	f, ok := g.(*formedGrammar)
	if !ok {
		return nil
	}
	b, err := json.Marshal(&f.form)
	if err != nil {
		panic(fmt.Sprintf("actors: the form of a grammar cannot be written: %v", err)) // it is plain data
	}
	return b
}

// fromWireForm compiles what a front has sent. It may take long.
func (e *Engine) fromWireForm(ctx context.Context, b []byte) (infer.Grammar, *infer.Error) {
	var f form
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, infer.Internal(fmt.Errorf("actors: the form of another node's sequence: %w", err))
	}
	var g infer.Grammar
	var err *infer.Error
	if f.Frame != nil {
		g, err = e.grammars.compileFrame(ctx, f.Frame)
	} else {
		g, err = e.grammars.compile(ctx, f.Structured)
	}
	if err != nil || g == nil || f.Thoughts == nil {
		return g, err
	}
	return &thinkingGrammar{
		answer: g, tokenizer: e.config.Tokenizer, vocabSize: e.config.Model.VocabSize, eos: e.config.EOSTokenIDs,
		inside: f.Thoughts.Inside, starts: f.Thoughts.Starts, ends: f.Thoughts.Ends,
	}, nil
}

// formCompiled ends the compilation of a sequence's form. Sender: its goroutine.
type formCompiled struct {
	relay   *relay
	add     *AddSequence
	grammar infer.Grammar
	err     *infer.Error
}
