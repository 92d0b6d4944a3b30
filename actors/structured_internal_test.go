package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestGrammarsAreRemembered(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens+7, []int32{testkit.EOS})
	none, err := g.compile(t.Context(), nil)
	require.Nil(t, none)
	require.Nil(t, err)
	for i := range 3 * maxGrammars {
		made, err := g.compile(t.Context(), &infer.StructuredOutput{Regex: fmt.Sprint("a", i%maxGrammars)})
		require.Nil(t, err)
		again, err := g.compile(t.Context(), &infer.StructuredOutput{Regex: fmt.Sprint("a", i%maxGrammars)})
		require.Nil(t, err)
		require.Same(t, made.(*grammar.Bound).Grammar, again.(*grammar.Bound).Grammar)
	}
	for i := range 3 * maxGrammars {
		_, err := g.compile(t.Context(), &infer.StructuredOutput{Choice: []string{fmt.Sprint(i)}})
		require.Nil(t, err)
		require.LessOrEqual(t, len(g.byKey), maxGrammars)
		require.Len(t, g.oldest, len(g.byKey))
		bytes := 0
		for _, c := range g.byKey {
			bytes += c.grammar.Size()
		}
		require.Equal(t, bytes, g.bytes)
		require.LessOrEqual(t, bytes, maxGrammarBytes)
	}
	_, err = g.compile(t.Context(), &infer.StructuredOutput{Param: "response_format", Path: "response_format.json_schema.schema", JSONSchema: []byte(`{"uniqueItems":true,"type":"array"}`)})
	require.NotNil(t, err)
	require.Equal(t, infer.CodeInvalid, err.Code)
	require.Equal(t, "response_format", err.Param)
	require.Contains(t, err.Message, "response_format.json_schema.schema")
	require.Contains(t, err.Message, "uniqueItems")
}

// Requests that differ in one thing only never share a grammar.
func TestGrammarKeys(t *testing.T) {
	seen := map[grammarKey]int{}
	for i, s := range []infer.StructuredOutput{
		{}, {JSONObject: true}, {JSONSchema: []byte("a")}, {Regex: "a"}, {EBNF: "a"}, {Choice: []string{"a"}}, {Choice: []string{"a", "b"}},
		{Choice: []string{"ab"}}, {Choice: []string{"", "ab"}}, {Choice: []string{"b", "a"}}, {Param: "a"}, {Path: "a"}, {Param: "a", Regex: "a"},
	} {
		key := keyOf(&s)
		_, dup := seen[key]
		require.False(t, dup, "%d and %d", i, seen[key])
		seen[key] = i
	}
}

// The matcher counts what it has accepted, whatever is undone, and allows the
// end of the sequence only where the text is complete.
func TestBoundGrammar(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens+7, []int32{testkit.EOS})
	made, err := g.compile(t.Context(), &infer.StructuredOutput{Regex: "ab?"})
	require.Nil(t, err)
	m := made.NewMatcher()
	mask := make([]uint64, (testkit.NumTokens+7+63)/64)
	allows := func(id int32) bool { m.Mask(mask); return mask[id/64]>>(id%64)&1 != 0 }
	require.True(t, allows('a'))
	require.False(t, allows('b'))
	require.False(t, allows(testkit.EOS))
	require.Error(t, m.Accept('b'))
	require.Zero(t, m.NumAccepted())
	require.NoError(t, m.Accept('a'))
	require.True(t, allows('b'))
	require.True(t, allows(testkit.EOS))
	require.NoError(t, m.Accept('b'))
	require.False(t, allows('b'))
	require.Equal(t, 2, m.NumAccepted())
	m.Rollback(2)
	require.Zero(t, m.NumAccepted())
	require.False(t, allows(testkit.EOS))
}

// Of many who ask for the same grammar at once, one compiles it; if its client
// leaves, another one does, and an error is for all who wait.
func TestGrammarIsCompiledOnce(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens, []int32{testkit.EOS})
	regex := &infer.StructuredOutput{Regex: "a"}
	leaving, leave := context.WithCancel(t.Context())
	started, proceed := make(chan struct{}), make(chan struct{})
	first := make(chan *infer.Error)
	go func() {
		_, err := g.remember(leaving, keyOf(regex), func(pause) (*grammar.Grammar, error) {
			close(started)
			<-proceed
			leave()
			return nil, errGivenUp
		})
		first <- err
	}()
	<-started
	var compiled atomic.Int64
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			_, err := g.remember(t.Context(), keyOf(regex), func(pause) (*grammar.Grammar, error) {
				compiled.Add(1)
				return compileGrammar(regex, nil)
			})
			assert.Nil(t, err)
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.compile(gone, regex)
	require.Equal(t, infer.CodeUnavailable, err.Code, "nobody waits for others who has left")
	close(proceed)
	require.Equal(t, infer.CodeUnavailable, (<-first).Code)
	others.Wait()
	require.EqualValues(t, 1, compiled.Load())
}

func TestCompilingEndsWithItsClient(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens, []int32{testkit.EOS})
	ctx, cancel := context.WithCancel(t.Context())
	s := &infer.StructuredOutput{JSONSchema: []byte(`{"const":"` + strings.Repeat("x", 100_000) + `"}`)}
	_, err := g.remember(ctx, keyOf(s), func(pause pause) (*grammar.Grammar, error) {
		cancel()
		return compileGrammar(s, pause)
	})
	require.Equal(t, infer.CodeUnavailable, err.Code)
	require.Empty(t, g.byKey)
}

// Of many large grammars few are compiled at a time, some wait and the rest is refused;
// smaller ones are behind none of them.
func TestLargeGrammarsWaitForEachOther(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens, []int32{testkit.EOS})
	busy := cap(g.lanes.long.places)
	for range busy {
		g.lanes.long.places <- struct{}{}
	}
	large := func(i int) *infer.StructuredOutput {
		return &infer.StructuredOutput{Regex: fmt.Sprint(i) + strings.Repeat("x", 80_000)}
	}
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	refused := make(chan *infer.Error, maxCompilesWaiting)
	for i := range maxCompilesWaiting {
		waiting.Go(func() {
			_, err := g.compile(ctx, large(i))
			refused <- err
		})
	}
	require.Eventually(t, func() bool { return g.lanes.long.waiting.Load() == maxCompilesWaiting }, time.Minute, time.Millisecond)
	_, err := g.compile(t.Context(), large(-1))
	require.Equal(t, infer.CodeOverloaded, err.Code)
	require.Positive(t, err.RetryAfter)
	for _, small := range []infer.StructuredOutput{{JSONSchema: []byte(`{"type":"integer"}`)}, {JSONSchema: []byte(`{"const":"` + strings.Repeat("x", 20_000) + `"}`)}} {
		_, err = g.compile(t.Context(), &small)
		require.Nil(t, err)
	}
	leave()
	waiting.Wait()
	for range maxCompilesWaiting {
		require.Equal(t, infer.CodeUnavailable, (<-refused).Code, "their clients have left")
	}
	require.Zero(t, g.lanes.long.waiting.Load())
	for range busy {
		<-g.lanes.long.places
	}
	_, err = g.compile(t.Context(), large(-1))
	require.Nil(t, err)
	require.Empty(t, g.lanes.long.places)
	require.Empty(t, g.lanes.middle.places)
}
