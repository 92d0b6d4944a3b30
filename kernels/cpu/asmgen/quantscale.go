package main

// magicBits are those of 3 * 2^22. An integer of less than 2^22 in size, added to
// them, makes the bits of 3 * 2^22 plus that integer.
const magicBits = 0x4b400000

// magic writes the constants that sums of integers start from, and that are taken
// away again.
func magic(f *file) {
	f.line("")
	for i, bits := range []uint32{magicBits, magicBits | 1<<31} {
		for lane := 0; lane < 16; lane += 2 {
			f.line("DATA qmagic<>+%d(SB)/8, $0x%08x%08x", 64*i+4*lane, bits, bits)
		}
	}
	f.line("GLOBL qmagic<>(SB), RODATA|NOPTR, $128")
}

// minusMagic is minus the magic: a register if one is free, else memory.
func (k *qkernel) minusMagic() string {
	switch {
	case k.evex && k.wide():
		return k.mask()
	case k.evex && k.bits == 4:
		return k.upper()
	}
	return "qmagic<>+64(SB)"
}

// scale adds the dots of a group of columns to the floats. Their bits are those of a
// float that is the magic larger, so that one operation converts and scales them:
// the magic, three times a power of two, times a scale of 19 significant bits is exact.
func (k *qkernel) scale(group int) {
	scale, less, low := k.temp(0), k.temp(1), k.temp(2)
	for tile := range k.tiles {
		for part := range k.parts {
			k.loadScale(tile, part, group)
			k.op("VMULPS", k.minusMagic(), scale, less)
			for col := range k.nr {
				dot, acc := k.dot(tile, col, part), k.acc(tile, col, part)
				k.op("VFMADD213PS", less, scale, dot)
				k.times("VFMADD231PS", k.sideAt(0, col), dot, acc)
				if k.scaling == scaleMin {
					k.times("VFMADD231PS", k.sideAt(1, col), low, acc)
				}
			}
		}
	}
}

// times is an operation with a broadcast word; without broadcasts in operands it
// uses a temporary register.
func (k *qkernel) times(op, word, a, to string) {
	if k.evex {
		k.op(op+".BCST", word, a, to)
		return
	}
	k.op("VBROADCASTSS", word, k.temp(3))
	k.op(op, k.temp(3), a, to)
}

// loadScale sets temporary register 0 to the scales of a tile's rows for a group
// of columns, and register 2 to the mins if there are any.
func (k *qkernel) loadScale(tile, part, group int) {
	at := func(disp int, offset string) string { return mem(disp, tileRegs[tile]) + "(" + offset + "*1)" }
	halves := k.width / 2 * part // where this part's halves begin
	bytes := k.width / 4 * part
	scale, widened, low := k.temp(0), k.temp(1), k.temp(2)
	if k.scaling == oneScale {
		k.op("VCVTPH2PS", at(halves, "R13"), scale)
		return
	}
	product := func(load string, dispByte, dispHalf int, to string) {
		k.op(load, at(dispByte+bytes, "R13"), widened)
		k.op("VCVTDQ2PS", widened, widened)
		k.op("VCVTPH2PS", at(dispHalf+halves, "R15"), to)
		k.op("VMULPS", widened, to, to)
	}
	if k.scaling == halfBlock {
		product("VPMOVSXBD", 16*group, 0, scale)
		return
	}
	product("VPMOVZXBD", 0, 0, scale)
	product("VPMOVZXBD", 16, 32, low)
}
