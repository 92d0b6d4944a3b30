package ptxsim

import "math/bits"

// warp is 32 threads. Lanes that are at the same instruction execute it together,
// the ones furthest behind first, so that they meet again after a branch.
type warp struct {
	b      *block
	id     int
	r      []reg
	p      []uint32 // predicates: one bit per lane
	tmp    reg
	alive  uint32 // lanes that have not left
	parked uint32 // lanes that wait for the others of the warp at a warp-wide instruction
	atBar  bool   // all lanes wait for the others of the block
	pc     [32]int32
	at     int // the instruction that is executed
	seg    uint32
	copies []copying
	groups [32]int // commits of each lane
}

func (w *warp) setPredicate(p int, v, m uint32) { w.p[p] = w.p[p]&^m | v&m }

// start makes the warp ready for its block.
func (w *warp) start(threads int) {
	w.alive, w.parked, w.atBar = full, 0, false
	if n := threads - 32*w.id; n < 32 {
		w.alive = 1<<n - 1
	}
	clear(w.pc[:])
	clear(w.groups[:])
	w.copies = w.copies[:0]
	w.newSegment()
}

// run executes until all lanes are at a barrier of the block, or gone.
func (w *warp) run() {
	for w.alive != 0 && !w.atBar {
		ready := w.alive &^ w.parked
		if ready == 0 {
			w.unpark()
			ready = w.alive
		}
		act, next := w.lowest(ready)
		w.step(act, next)
	}
}

// unpark lets lanes go on that all wait, if they wait at the same place.
func (w *warp) unpark() {
	first := bits.TrailingZeros32(w.parked) & 31
	w.at = int(w.pc[first])
	for m := w.parked; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		if w.pc[l] == w.pc[first] {
			continue
		}
		kind := DivergedWarp
		code := w.b.l.k.code
		if code[w.at].kind == blocks || code[w.pc[l]].kind == blocks {
			kind = DivergedBarrier
		}
		w.fail(kind, l, "lane %d waits there, lane %d at line %d, %q", first, l, code[w.pc[l]].line, code[w.pc[l]].text())
	}
	w.parked = 0
}

// lowest returns the lanes at the lowest instruction, and the next one where others are.
func (w *warp) lowest(ready uint32) (act uint32, next int) {
	low, after := int32(maxInsts), int32(maxInsts)
	for m := ready; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		switch pc := w.pc[l]; {
		case pc < low:
			act, after, low = 1<<l, low, pc
		case pc == low:
			act |= 1 << l
		case pc < after:
			after = pc
		}
	}
	w.at = int(low)
	return act, int(after)
}

// step executes for lanes until they part, wait or reach those of next.
func (w *warp) step(act uint32, next int) {
	code := w.b.l.k.code
	for steps := int64(0); ; steps++ {
		in := &code[w.at]
		m := act
		if in.guard >= 0 {
			v := w.p[in.guard]
			if in.neg {
				v = ^v
			}
			m &= v
		}
		if in.kind == plain {
			if m != 0 {
				in.run(w, m)
			}
			w.at++
		} else if !w.flow(in, act, m) {
			w.b.l.steps += steps + 1
			return
		}
		if w.at >= next {
			w.setPC(act, w.at)
			w.b.l.steps += steps + 1
			return
		}
	}
}

func (w *warp) setPC(m uint32, pc int) {
	for ; m != 0; m &= m - 1 {
		w.pc[bits.TrailingZeros32(m)&31] = int32(pc)
	}
}

// flow executes what is not plain, for the lanes m of act, and tells whether act
// goes on together.
func (w *warp) flow(in *inst, act, m uint32) bool {
	if in.kind == jumps {
		return w.jump(in, act, m)
	}
	if in.kind == exits {
		w.alive &^= m
		w.setPC(act&^m, w.at+1)
		return false
	}
	if m == 0 {
		w.at++
		return true
	}
	if m != act {
		w.fail(w.divergence(in), bits.TrailingZeros32(m), "only lanes %#x of %#x that are here execute it", m, act)
	}
	if m != w.alive {
		w.parked |= m
		w.setPC(m, w.at)
		return false
	}
	if in.kind == blocks {
		w.atBar = true
		w.setPC(m, w.at+1)
		return false
	}
	in.run(w, m)
	w.at++
	return true
}

func (w *warp) divergence(in *inst) Kind {
	if in.kind == blocks {
		return DivergedBarrier
	}
	return DivergedWarp
}

// jump is bra. Every loop comes by, so it is where time is limited.
func (w *warp) jump(in *inst, act, m uint32) bool {
	w.b.l.count++
	if w.b.l.count > w.b.l.maxJumps {
		w.fail(TooLong, bits.TrailingZeros32(act), "the launch has executed %d branches", w.b.l.maxJumps)
	}
	if m != act && m != 0 {
		w.setPC(m, in.target)
		w.setPC(act&^m, w.at+1)
		return false
	}
	if w.at++; m == act {
		w.at = in.target
	}
	return true
}
