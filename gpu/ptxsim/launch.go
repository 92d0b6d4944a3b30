package ptxsim

import (
	"math/rand/v2"

	"github.com/troupe-llm/troupe/gpu"
)

// dynamicShared is the special register of where external shared memory begins.
const dynamicShared = "dynamic shared memory"

// specials are the special registers that are known.
var specials = map[string]bool{
	"%tid.x": true, "%tid.y": true, "%tid.z": true, "%ntid.x": true, "%ntid.y": true, "%ntid.z": true,
	"%ctaid.x": true, "%ctaid.y": true, "%ctaid.z": true, "%nctaid.x": true, "%nctaid.y": true, "%nctaid.z": true,
	"%laneid": true, "%warpid": true,
}

// launch is a kernel on a grid.
type launch struct {
	k      *kernel
	mem    *memory
	cfg    gpu.LaunchConfig
	params []byte
	rng    *rand.Rand // order of blocks and warps; nil: by number

	maxJumps int64
	count    int64 // branches
	steps    int64 // instructions, each of a whole warp
	first    uint32
	last     uint32
	segments []segment // from first on
}

// block is a block of threads.
type block struct {
	l      *launch
	at     [3]int
	number int
	epoch  int // barriers that the block has passed
	warps  []*warp
	shared *span
}

func (l *launch) nextSegment() uint32 {
	if l.last++; l.last > maxSegment {
		l.last = l.first // the launch has gone on for too long for its races to be told apart
		panic(&Fault{Kind: TooLong, Kernel: l.k.name, Detail: "more barriers and warps than can be numbered"})
	}
	return l.last
}

// coordinates returns a block's place in the grid.
func (l *launch) coordinates(n int) [3]int {
	x, y := l.cfg.Grid[0], l.cfg.Grid[1]
	return [3]int{n % x, n / x % y, n / x / y}
}

// run executes all blocks, one after the other.
func (l *launch) run() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Fault:
			err = r
		default:
			panic(r)
		}
	}()
	l.first = l.last + 1
	b := l.newBlock()
	n := l.cfg.Grid[0] * l.cfg.Grid[1] * l.cfg.Grid[2]
	var order []int
	if l.rng != nil {
		order = l.rng.Perm(n)
	}
	for i := range n {
		if b.number = i; order != nil {
			b.number = order[i]
		}
		b.at = l.coordinates(b.number)
		b.run()
	}
	return nil
}

// newBlock makes the warps of a block; they serve all blocks of the launch.
func (l *launch) newBlock() *block {
	b := &block{l: l, shared: newSpan(0, l.k.shared+l.cfg.Shared)}
	b.shared.shared = true
	threads := l.cfg.Threads()
	for id := range (threads + 31) / 32 {
		w := &warp{b: b, id: id, r: make([]reg, l.k.numRegs), p: make([]uint32, l.k.numPreds)}
		for _, c := range l.k.consts {
			for lane := range w.r[c.reg] {
				w.r[c.reg][lane] = c.value
			}
		}
		for _, s := range l.k.specials {
			for lane := range w.r[s.reg] {
				w.r[s.reg][lane] = l.fixed(s.name, id*32+lane)
			}
		}
		b.warps = append(b.warps, w)
	}
	return b
}

// fixed returns a special register of a thread that is the same in all blocks.
func (l *launch) fixed(name string, thread int) uint64 {
	x, y := l.cfg.Block[0], l.cfg.Block[1]
	v := 0
	switch name {
	case "%tid.x":
		v = thread % x
	case "%tid.y":
		v = thread / x % y
	case "%tid.z":
		v = thread / x / y
	case "%laneid":
		v = thread % 32
	case "%warpid":
		v = thread / 32
	case dynamicShared:
		v = l.k.shared
	case "%ntid.x", "%ntid.y", "%ntid.z":
		v = l.cfg.Block[name[6]-'x']
	case "%nctaid.x", "%nctaid.y", "%nctaid.z":
		v = l.cfg.Grid[name[8]-'x']
	}
	return uint64(v)
}

// run executes the block from its start.
func (b *block) run() {
	clear(b.shared.state)
	b.shared.first, b.epoch = b.l.last+1, 0
	for _, w := range b.warps {
		for _, s := range b.l.k.specials {
			if len(s.name) == 8 && s.name[:7] == "%ctaid." {
				for lane := range w.r[s.reg] {
					w.r[s.reg][lane] = uint64(b.at[s.name[7]-'x'])
				}
			}
		}
		w.start(b.l.cfg.Threads())
	}
	for b.phase() {
	}
}

// phase runs every warp to its next barrier and tells whether there is another phase.
func (b *block) phase() bool {
	order := b.warps
	if b.l.rng != nil {
		b.l.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, w := range order {
		w.run()
	}
	var first *warp
	for _, w := range order {
		if w.alive == 0 {
			continue
		}
		if first == nil {
			first = w
		}
		if w.at != first.at {
			code := b.l.k.code
			w.fail(DivergedBarrier, 0, "warp %d waits there, warp %d at line %d, %q", w.id, first.id, code[first.at].line, code[first.at].text())
		}
	}
	b.epoch++
	for _, w := range order {
		w.atBar = false
		if w.alive != 0 {
			w.newSegment()
		}
	}
	return first != nil
}
