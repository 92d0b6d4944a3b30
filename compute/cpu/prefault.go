package cpu

const (
	// smallPage is the least that a system hands out at a time.
	smallPage = 4 << 10
	// prefaultBytes is what a thread makes real at a time: a few huge pages.
	prefaultBytes = 8 << 20
)

// prefaultTask makes memory real that nobody uses yet, by writing to every page the
// zero that is there.
type prefaultTask struct{ memory []byte }

// prefault makes memory real, on all threads: the system clears pages no faster than
// some gigabyte in a second on one.
func (b *Backend) prefault(memory []byte) {
	n := (len(memory) + prefaultBytes - 1) / prefaultBytes
	b.pool.run(&prefaultTask{memory}, n)
}

// run implements task.
func (t *prefaultTask) run(chunk, _ int) {
	part := t.memory[chunk*prefaultBytes : min((chunk+1)*prefaultBytes, len(t.memory))]
	for at := 0; at < len(part); at += smallPage {
		part[at] = 0
	}
}
