package main

// Integers of five and six bits have their low four where integers of four bits are,
// and what is above those behind them: a vector for eight steps of one bit, or for
// four steps of two.

// upper is the constant that has the bits above the low four set in every byte.
func (k *qkernel) upper() string { return k.reg(k.last() - 2) }

// upperBits says which upper bits are to be added.
type upperBits struct {
	tile, step int // the first of two steps
	part       int
	temp       int // a temporary register that is free
}

// addUpper adds the upper bits of two steps to their low ones.
func (k *qkernel) addUpper(b upperBits, low, high string) {
	bits := k.bits - 4
	if bits == 0 {
		return
	}
	for i, to := range []string{low, high} {
		step := b.step + i
		vector, at := step*bits/8, step*bits%8
		from := mem(256+64*vector+k.width*b.part, tileRegs[b.tile]) + "(CX*1)"
		k.mergeUpper(from, at, k.temp(b.temp), to)
	}
}

// mergeUpper moves the bits at bit at of every byte to bit four, and adds them to to.
// Shifts are of words: what they carry from one byte to the next is masked.
func (k *qkernel) mergeUpper(from string, at int, temp, to string) {
	shift, by := "VPSLLW", 4-at
	if by < 0 {
		shift, by = "VPSRLW", -by
	}
	if k.evex { // takes the memory as an operand, and does both masking and adding
		if by != 0 {
			k.op(shift, imm(by), from, temp)
			from = temp
		}
		k.op("VPTERNLOGD", "$0xf8", from, k.upper(), to)
		return
	}
	k.op("VMOVDQU", from, temp)
	if by != 0 {
		k.op(shift, imm(by), temp, temp)
	}
	k.op("VPAND", k.upper(), temp, temp)
	k.op("VPOR", temp, to, to)
}
