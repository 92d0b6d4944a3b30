package ptxsim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// flow is what the scheduler of a warp has to know of an instruction.
type flow uint8

const (
	plain   flow = iota
	jumps        // bra
	exits        // ret, exit
	blocks       // bar.sync
	gathers      // all lanes that are left execute it together: shfl, mma, …
)

// op executes an instruction for the lanes of m.
type op func(w *warp, m uint32)

// inst is a decoded instruction.
type inst struct {
	run    op
	kind   flow
	neg    bool // the guard is negated
	guard  int  // a predicate, or -1
	target int  // of jumps
	line   int
	source string // as it stands there, in one line or several
}

// text is the instruction with single blanks.
func (in *inst) text() string { return strings.Join(strings.Fields(in.source), " ") }

// operand is an operand as it stands in the source.
type operand struct {
	text   string    // a word, with its sign
	offset int64     // of an address
	list   []operand // of a vector
	memory bool      // it stood in brackets
}

// statement reads a label or an instruction.
func (p *parser) statement() {
	start := p.tok
	in := inst{guard: -1, line: start.line, target: -1}
	if p.accept("@") {
		in.neg = p.accept("!")
		in.guard = p.predicate(p.take())
	}
	word := p.take()
	if in.guard < 0 && p.accept(":") {
		if _, twice := p.labels[word]; twice {
			p.fail("there are two labels %s", word)
		}
		p.labels[word] = len(p.k.code)
		return
	}
	d := &decoder{parser: p, mods: p.parts(word), name: word, inst: &in}
	for p.tok.text != ";" {
		d.args = append(d.args, p.operand(0))
		if !p.accept(",") && p.tok.text != ";" {
			p.fail("%q in the operands of %s", p.tok.text, word)
		}
	}
	in.source = p.src[start.at:p.tok.at]
	d.decode()
	p.expect(";")
	if p.numInst++; p.numInst > maxInsts {
		p.fail("more than %d instructions", maxInsts)
	}
	p.k.code = append(p.k.code, in)
}

// parts splits a mnemonic at its dots. There are few different ones.
func (p *parser) parts(mnemonic string) []string {
	all, ok := p.mnemonics[mnemonic]
	if !ok {
		all = strings.Split(mnemonic, ".")
		p.mnemonics[mnemonic] = all
	}
	return all
}

func (p *parser) operand(depth int) operand {
	switch {
	case p.accept("{"):
		var v operand
		for !p.accept("}") {
			if depth > 0 || len(v.list) == maxVector {
				p.fail("a vector of more than %d operands, or within another", maxVector)
			}
			v.list = append(v.list, p.operand(depth+1))
			if !p.accept(",") && p.tok.text != "}" {
				p.fail("%q in a vector", p.tok.text)
			}
		}
		return v
	case p.accept("["):
		if depth == maxVector {
			p.fail("an address within an address")
		}
		o := p.operand(maxVector)
		o.memory = true
		if p.accept("+") {
			sign := p.accept("-")
			o.offset = int64(p.number(math.MaxInt32))
			if sign {
				o.offset = -o.offset
			}
		}
		p.expect("]")
		return o
	case p.accept("-"):
		return operand{text: "-" + p.take()}
	}
	return operand{text: p.take()}
}

// find looks a register up, from the innermost scope outwards.
func (p *parser) find(name string) (declared, bool) {
	stem := strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(stem):])
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if d, ok := p.scopes[i][name]; ok {
			return d, true
		}
		if d, ok := p.ranges[i][stem]; ok && err == nil && n < p.counts[i][stem] {
			return declared{d.index + n, d.width}, true
		}
	}
	return declared{}, false
}

func (p *parser) predicate(name string) int {
	d, ok := p.find(name)
	if !ok || d.width != 1 {
		p.fail("%s is no predicate", name)
	}
	return d.index
}

// decoder turns one instruction into an op.
type decoder struct {
	*parser
	name string
	mods []string // the parts of the mnemonic
	args []operand
	inst *inst
}

// reject ends parsing with an error about the instruction.
func (d *decoder) reject(format string, a ...any) {
	panic(&ParseError{Line: d.inst.line, Inst: d.inst.text(), Reason: fmt.Sprintf(format, a...)})
}

func (d *decoder) decode() {
	find := decoders[d.mods[0]]
	if find == nil {
		d.reject("instruction %s is not supported", d.name)
	}
	d.inst.run = find(d)
	if d.inst.run == nil {
		d.reject("form %s of %s is not supported", d.name, d.mods[0])
	}
}

// need rejects another number of operands than n.
func (d *decoder) need(n int) {
	if len(d.args) != n {
		d.reject("%d operands where %d are expected", len(d.args), n)
	}
}

// has tells whether the mnemonic has the modifier.
func (d *decoder) has(mod string) bool {
	for _, m := range d.mods[1:] {
		if m == mod {
			return true
		}
	}
	return false
}

// only rejects modifiers that nobody named: they would be ignored. typed are types.
func (d *decoder) only(mods ...string) {
next:
	for _, m := range d.mods[1:] {
		for _, known := range mods {
			if m == known {
				continue next
			}
		}
		if _, typ := typeBits[m]; !typ {
			d.reject("modifier .%s is not supported here", m)
		}
	}
}

// typeBits are the widths of PTX's types.
var typeBits = map[string]int{
	"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32,
	"b32": 32, "u32": 32, "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
}

// typ returns the last modifier, which is the type of the operands.
func (d *decoder) typ() string {
	t := d.mods[len(d.mods)-1]
	if _, ok := typeBits[t]; !ok {
		d.reject("there is no type at the end of %s", d.name)
	}
	return t
}

// dst returns the register that operand i names.
func (d *decoder) dst(i int) int { return d.register(d.args[i]).index }

func (d *decoder) register(o operand) declared {
	r, ok := d.find(o.text)
	if !ok || r.width == 1 || o.memory || o.list != nil {
		d.reject("operand %q is no register", o.text)
	}
	return r
}

// src returns a register with the value of operand i, which may be a constant, an
// array in shared memory or a special register.
func (d *decoder) src(i int) int { return d.value(d.args[i]) }

func (d *decoder) value(o operand) int {
	if o.list != nil || o.memory || o.text == "" {
		d.reject("an operand is no simple value")
	}
	if r, ok := d.find(o.text); ok {
		if r.width == 1 {
			d.reject("operand %s is a predicate", o.text)
		}
		return r.index
	}
	if specials[o.text] {
		return d.special(o.text)
	}
	v, ok := d.shared[o.text]
	if g, outside := d.globals[o.text]; !ok && outside {
		v, ok = d.place(o.text, g), true
	}
	if ok && v.external {
		return d.special(dynamicShared)
	} else if ok {
		return d.constant(uint64(v.at))
	}
	c, ok := literal(o.text)
	if !ok {
		d.reject("operand %q is not known", o.text)
	}
	return d.constant(c)
}

// literal reads a number: decimal, 0x…, or the bits of a float as 0f… or 0d….
func literal(s string) (uint64, bool) {
	if len(s) == 10 && (s[:2] == "0f" || s[:2] == "0F") {
		v, err := strconv.ParseUint(s[2:], 16, 32)
		return v, err == nil
	}
	if v, err := strconv.ParseInt(s, 0, 64); err == nil {
		return uint64(v), true
	}
	v, err := strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
	return v, err == nil
}

func (d *decoder) constant(v uint64) int {
	r, ok := d.consts[v]
	if !ok {
		r = d.newRegisters(1, 64)
		d.consts[v] = r
		d.k.consts = append(d.k.consts, constant{r, v})
	}
	return r
}

// special returns the register of a special register; each has one of its own.
func (d *decoder) special(name string) int {
	for _, s := range d.k.specials {
		if s.name == name {
			return s.reg
		}
	}
	r := d.newRegisters(1, 64)
	d.k.specials = append(d.k.specials, special{r, name})
	return r
}

// vector returns the registers of operand i: those of a vector, or the one.
func (d *decoder) vector(i int, read bool) []int {
	list := d.args[i].list
	if list == nil {
		list = d.args[i : i+1]
	}
	regs := make([]int, 0, len(list))
	for _, o := range list {
		if read {
			regs = append(regs, d.value(o))
		} else {
			regs = append(regs, d.register(o).index)
		}
	}
	return regs
}
