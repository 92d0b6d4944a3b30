package ptxsim

import "math/bits"

// shuffle is shfl.sync.
func shuffle(d *decoder) op {
	d.need(5)
	if len(d.mods) != 4 || d.mods[1] != "sync" || d.mods[3] != "b32" {
		return nil
	}
	d.inst.kind = gathers
	source := shuffles[d.mods[2]]
	if source == nil {
		return nil
	}
	to, from, by, clamp := d.dst(0), d.src(1), d.src(2), d.src(3)
	return func(w *warp, m uint32) {
		w.tmp = w.r[from]
		x, b, c := &w.tmp, &w.r[by], &w.r[clamp]
		for n := m; n != 0; n &= n - 1 {
			l := bits.TrailingZeros32(n) & 31
			mask := int(c[l]>>8) & 31
			j, inside := source(l, int(b[l])&31, l&mask|int(c[l])&31&^mask, mask)
			if !inside {
				j = l
			}
			if m>>j&1 == 0 {
				w.fail(DivergedWarp, l, "it reads lane %d, which takes no part", j)
			}
			w.r[to][l] = low(x[j], 32)
		}
	}
}

// shuffles return the lane that is read, and whether it is within the segment:
// up to edge for all but up, for which edge is the lowest.
var shuffles = map[string]func(l, b, edge, mask int) (int, bool){
	"up":   func(l, b, edge, _ int) (int, bool) { return (l - b) & 31, l-b >= edge },
	"down": func(l, b, edge, _ int) (int, bool) { return (l + b) & 31, l+b <= edge },
	"bfly": func(l, b, edge, _ int) (int, bool) { return l ^ b, l^b <= edge },
	"idx": func(l, b, edge, mask int) (int, bool) {
		j := l&mask | b&^mask
		return j, j <= edge
	},
}

// vote is vote.sync.
func vote(d *decoder) op {
	d.need(3)
	if len(d.mods) != 4 || d.mods[1] != "sync" {
		return nil
	}
	d.inst.kind = gathers
	p := d.predicate(d.args[1].text)
	if d.mods[2] == "ballot" && d.mods[3] == "b32" {
		to := d.dst(0)
		return func(w *warp, m uint32) {
			for l := range w.r[to] {
				w.r[to][l] = uint64(w.p[p] & m)
			}
		}
	}
	var f func(votes, m uint32) bool
	switch d.mods[2] {
	case "any":
		f = func(votes, _ uint32) bool { return votes != 0 }
	case "all":
		f = func(votes, m uint32) bool { return votes == m }
	case "uni":
		f = func(votes, m uint32) bool { return votes == m || votes == 0 }
	default:
		return nil
	}
	to := d.predicate(d.args[0].text)
	return func(w *warp, m uint32) { w.setPredicate(to, -bit(f(w.p[p]&m, m)), m) }
}

// loadMatrix is ldmatrix: one to four 8x8 matrices of 16 bits, whose rows of 16 bytes
// the addresses of eight lanes each name.
func loadMatrix(d *decoder) op {
	d.need(2)
	d.only("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared")
	d.inst.kind = gathers
	to := d.vector(0, false)
	if !d.has("shared") || d.typ() != "b16" || !d.has(map[int]string{1: "x1", 2: "x2", 4: "x4"}[len(to)]) {
		return nil
	}
	base, offset := d.address(1)
	trans := d.has("trans")
	return func(w *warp, m uint32) {
		if m != full {
			w.fail(DivergedWarp, bits.TrailingZeros32(^m), "only lanes %#x take part", m)
		}
		rows := w.r[base]
		for i, r := range to {
			for l := range w.tmp {
				if !trans {
					s, o := w.locate(shared, rows[8*i+l/4]+offset+uint64(l%4*4), 4, l)
					w.reads(s, o, 4, l)
					w.tmp[l] = get(s.data[o:], 4)
					continue
				}
				w.tmp[l] = 0
				for h := range 2 {
					s, o := w.locate(shared, rows[8*i+l%4*2+h]+offset+uint64(l/4*2), 2, l)
					w.reads(s, o, 2, l)
					w.tmp[l] |= get(s.data[o:], 2) << (16 * h)
				}
			}
			w.r[r] = w.tmp
		}
	}
}

// multiplyMatrices is mma.m16n8k16 of bf16 or f16 with sums in f32.
func multiplyMatrices(d *decoder) op {
	d.need(4)
	d.inst.kind = gathers
	var wide func(uint64) float32
	switch d.name {
	case "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32":
		wide = func(v uint64) float32 { return f32(v << 16 & 0xffff0000) }
	case "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":
		wide = fromF16
	default:
		return nil
	}
	to, a, b, c := d.vector(0, false), d.vector(1, true), d.vector(2, true), d.vector(3, true)
	if len(to) != 4 || len(a) != 4 || len(b) != 2 || len(c) != 4 {
		return nil
	}
	return func(w *warp, m uint32) {
		if m != full {
			w.fail(DivergedWarp, bits.TrailingZeros32(^m), "only lanes %#x take part", m)
		}
		var f fragments
		f.gather(w, a, b, wide)
		f.multiply()
		for i := range to {
			w.tmp = w.r[c[i]]
			for l := range w.tmp {
				w.r[to[i]][l] = bits32(f32(w.tmp[l]) + f.c[l/4+i/2*8][l%4*2+i%2])
			}
		}
	}
}

// fragments are the factors of an mma and their product.
type fragments struct {
	a [16][16]float32
	b [16][8]float32
	c [16][8]float32
}

// gather collects the factors: lane l holds, with g = l/4 and t = 2(l%4), of a the rows
// g (registers 0, 2) and g+8 (1, 3) at k = t, t+1 (0, 1) and t+8, t+9 (2, 3), and of b
// the column g likewise.
func (f *fragments) gather(w *warp, a, b []int, wide func(uint64) float32) {
	for l := range 32 {
		g, t := l/4, l%4*2
		for i, r := range a {
			v := w.r[r][l]
			f.a[g+i%2*8][t+i/2*8] = wide(v & 0xffff)
			f.a[g+i%2*8][t+i/2*8+1] = wide(v >> 16 & 0xffff)
		}
		for i, r := range b {
			v := w.r[r][l]
			f.b[t+i*8][g] = wide(v & 0xffff)
			f.b[t+i*8+1][g] = wide(v >> 16 & 0xffff)
		}
	}
}

func (f *fragments) multiply() {
	for i := range f.c {
		row := &f.c[i]
		for k := range f.b {
			x, y := f.a[i][k], &f.b[k]
			for j := range row {
				row[j] += float32(x * y[j])
			}
		}
	}
}
