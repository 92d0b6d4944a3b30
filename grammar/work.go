package grammar

import (
	"errors"

	"github.com/troupe-llm/troupe/infer"
)

// ErrGivenUp is what compiling returns after Options.Done was closed.
var ErrGivenUp = errors.New("compiling was given up")

// maxWork bounds the work of compiling one source, in units of some ten nanoseconds:
// the worst source that is accepted takes a quarter of a second of a core.
const maxWork = 20_000_000

// workBetweenLooks is how much work may pass after Options.Done was closed.
const workBetweenLooks = 100_000

// meter counts work. Every loop whose length comes from outside, and that is not
// bounded by the source's size alone, spends what it is about to cost.
type meter struct {
	spent, looked int
	done          <-chan struct{}
}

// tooMuchWork and givenUp travel as panics from deep inside up to compile.
type (
	tooMuchWork struct{}
	givenUp     struct{}
)

func (m *meter) spend(work int) {
	if m.spent += work; m.spent > maxWork {
		panic(tooMuchWork{})
	}
	if m.spent-m.looked < workBetweenLooks {
		return
	}
	m.looked = m.spent
	select {
	case <-m.done:
		panic(givenUp{})
	default:
	}
}

// compile runs f with a fresh builder and turns the end of its patience into an error.
func compile(o Options, f func(b *builder) (*Grammar, error)) (g *Grammar, err error) {
	b := newBuilder(o)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooMuchWork:
			g, err = nil, infer.AsError(o.invalid("", "compiling takes more than the limit of %d units of work", maxWork))
		case givenUp:
			g, err = nil, ErrGivenUp
		default:
			panic(r)
		}
	}()
	return f(b)
}
