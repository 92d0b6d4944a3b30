package ptxsim

// branch is bra; whether .uni holds does not matter to how we run it.
func branch(d *decoder) op {
	d.need(1)
	d.only("uni")
	d.inst.kind = jumps
	d.jumps = append(d.jumps, jump{from: len(d.k.code), to: d.args[0].text, line: d.inst.line})
	return nothing
}

func leave(d *decoder) op {
	d.need(0)
	d.only("uni")
	d.inst.kind = exits
	return nothing
}

// barrier is bar.sync 0, for the whole block, and bar.warp.sync.
func barrier(d *decoder) op {
	d.need(1)
	d.only("sync", "warp", "aligned")
	if !d.has("sync") {
		return nil
	}
	if d.has("warp") {
		d.inst.kind = gathers
		return func(w *warp, _ uint32) { w.newSegment() }
	}
	if d.args[0].text != "0" {
		d.reject("only barrier 0 of all threads is supported")
	}
	d.inst.kind = blocks
	return nothing
}

// fence orders memory for others; since nothing orders two blocks for the race
// check, it has nothing to do.
func fence(d *decoder) op {
	d.need(0)
	d.only("gl", "cta", "sys", "sc", "acq_rel", "gpu")
	return nothing
}

func nothing(*warp, uint32) {}
