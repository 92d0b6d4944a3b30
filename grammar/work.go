package grammar

import "github.com/troupe-llm/troupe/infer"

// maxWork bounds the work of compiling one source, in units of some ten nanoseconds:
// the worst source that is accepted takes a quarter of a second of a core.
const maxWork = 20_000_000

// workBetweenPauses is after how much work Options.Pause is called.
const workBetweenPauses = 100_000

// meter counts work. Every loop whose length comes from outside, and that is not
// bounded by the source's size alone, spends what it is about to cost.
type meter struct {
	spent, paused int
	pause         func(spent int) error
}

// tooMuchWork and givenUp travel as panics from deep inside up to compile.
type (
	tooMuchWork struct{}
	givenUp     struct{ err error }
)

func (m *meter) spend(work int) {
	if m.spent += work; m.spent > maxWork {
		panic(tooMuchWork{})
	}
	if m.pause == nil || m.spent-m.paused < workBetweenPauses {
		return
	}
	m.paused = m.spent
	if err := m.pause(m.spent); err != nil {
		panic(givenUp{err})
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
			g, err = nil, r.err
		default:
			panic(r)
		}
	}()
	return f(b)
}
