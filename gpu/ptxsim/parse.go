package ptxsim

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/gpu"
)

// module is parsed PTX.
type module struct{ kernels map[string]*kernel }

// kernel is an entry point, decoded.
type kernel struct {
	name       string
	params     []gpu.Param
	paramAt    map[string]int // bytes from the start of the parameter block
	paramBytes int
	code       []inst
	numRegs    int
	numPreds   int
	consts     []constant
	specials   []special
	shared     int // static bytes
	maxThreads int
}

// constant is a register that holds the same in all lanes, always.
type constant struct {
	reg   int
	value uint64
}

// special is a register that the hardware fills, as %tid.x.
type special struct {
	reg  int
	name string
}

// variable is a shared array. One that is declared outside of kernels gets its
// place in each kernel that names it; external ones lie behind all others.
type variable struct {
	at, size, align int // bytes
	external        bool
}

// declared is what a name of a register stands for.
type declared struct {
	index int // among predicates or among values
	width int // bits; 1 for predicates
}

// parser reads a module. Its errors are *ParseError.
type parser struct {
	lexer
	tok     token
	version int
	numInst int
	globals map[string]variable // shared arrays outside of kernels
	mod     *module

	k      *kernel // the one that is being read
	shared map[string]variable
	scopes []map[string]declared
	ranges []map[string]declared // of %r<30>, by prefix: width is theirs, index the first's
	counts []map[string]int      // how many there are of a prefix
	labels map[string]int
	jumps  []jump
	consts map[uint64]int

	mnemonics map[string][]string // their parts
}

type jump struct {
	from int
	to   string
	line int
}

// parse reads PTX. Everything that is not understood is an error that names its line.
func parse(src string) (mod *module, err error) {
	if len(src) > maxSource {
		return nil, &ParseError{Line: 1, Reason: fmt.Sprintf("%d bytes of PTX; at most %d are read", len(src), maxSource)}
	}
	p := &parser{lexer: lexer{src: src, line: 1}, mod: &module{kernels: map[string]*kernel{}}, globals: map[string]variable{}, mnemonics: map[string][]string{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *ParseError:
			mod, err = nil, r
		default:
			panic(r)
		}
	}()
	for p.advance(); p.tok.text != ""; {
		p.top()
	}
	if p.version == 0 {
		p.fail("there is no .version directive")
	}
	return p.mod, nil
}

// fail ends parsing; parse returns the error.
func (p *parser) fail(format string, a ...any) {
	panic(&ParseError{Line: p.tok.line, Reason: fmt.Sprintf(format, a...)})
}

func (p *parser) advance() {
	t, err := p.next()
	if err != nil {
		panic(err)
	}
	p.tok = t
}

// take returns the token and goes on to the next.
func (p *parser) take() string {
	t := p.tok.text
	if t == "" {
		p.fail("the source ends too early")
	}
	p.advance()
	return t
}

func (p *parser) expect(text string) {
	if p.tok.text != text {
		p.fail("%q where %q is expected", p.tok.text, text)
	}
	p.advance()
}

func (p *parser) accept(text string) bool {
	if p.tok.text != text {
		return false
	}
	p.advance()
	return true
}

func (p *parser) number(limit int) int {
	text := p.take()
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < 0 || n > int64(limit) {
		p.fail("%q where a number up to %d is expected", text, limit)
	}
	return int(n)
}

// top reads what stands outside of kernels.
func (p *parser) top() {
	switch d := p.take(); d {
	case ".version":
		v := p.take()
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || f < 6 || f > 8.9 {
			p.fail("PTX version %q; 6.0 to 8.9 are read", v)
		}
		p.version = int(f * 10)
	case ".target":
		p.target()
	case ".address_size":
		if n := p.take(); n != "64" {
			p.fail("addresses of %s bits; only 64 are supported", n)
		}
	case ".visible", ".weak":
	case ".entry":
		p.entry()
	case ".extern", ".shared":
		if d == ".extern" {
			p.expect(".shared")
		}
		name, v := p.sharedArray(d == ".extern")
		p.globals[name] = v
	default:
		p.fail("%q is not supported outside of a kernel", d)
	}
}

// target takes any sm_NN of 70 to 90; those with a letter have instructions of their own.
func (p *parser) target() {
	t := p.take()
	n, err := strconv.Atoi(strings.TrimPrefix(t, "sm_"))
	if err != nil || n < 70 || n > 90 {
		p.fail("target %q; sm_70 to sm_90 are supported", t)
	}
	for p.accept(",") {
		p.take()
	}
}

// entry reads a kernel.
func (p *parser) entry() {
	name := p.take()
	if p.mod.kernels[name] != nil {
		p.fail("there are two kernels %s", name)
	}
	p.k = &kernel{name: name, paramAt: map[string]int{}, maxThreads: 1024}
	p.shared, p.labels, p.jumps = map[string]variable{}, map[string]int{}, nil
	p.scopes, p.ranges, p.counts, p.consts = nil, nil, nil, map[uint64]int{}
	if p.accept("(") {
		for !p.accept(")") {
			p.param()
			if !p.accept(",") && p.tok.text != ")" {
				p.fail("%q in a list of parameters", p.tok.text)
			}
		}
	}
	for !p.accept("{") {
		p.tuning()
	}
	p.body()
	p.link()
	p.mod.kernels[name] = p.k
}

func (p *parser) param() {
	p.expect(".param")
	typ := strings.TrimPrefix(p.take(), ".")
	size := gpu.TypeSize(typ)
	if size == 0 {
		p.fail("parameters of type %s are not supported", typ)
	}
	name := p.take()
	for strings.HasPrefix(name, ".") { // .ptr .global .align 4
		if name == ".align" {
			p.take()
		}
		name = p.take()
	}
	k := p.k
	if len(k.params) == gpu.MaxParams {
		p.fail("more than %d parameters", gpu.MaxParams)
	}
	at := (k.paramBytes + size - 1) / size * size
	k.params = append(k.params, gpu.Param{Name: name, Type: typ, Size: size})
	k.paramAt[name], k.paramBytes = at, at+size
}

// tuning reads .maxntid and its like.
func (p *parser) tuning() {
	d := p.take()
	if d != ".maxntid" && d != ".reqntid" && d != ".minnctapersm" && d != ".maxnreg" {
		p.fail("%q is not supported before the body of a kernel", d)
	}
	n := p.number(math.MaxInt32)
	for p.accept(",") {
		n *= p.number(1024)
	}
	if d == ".maxntid" || d == ".reqntid" {
		if n < 1 || n > 1024 {
			p.fail("%s of %d threads; blocks have 1 to 1024", d, n)
		}
		p.k.maxThreads = n
	}
}

// body reads up to the brace that closes the kernel, inner scopes included.
func (p *parser) body() {
	p.open()
	for len(p.scopes) > 0 {
		switch t := p.tok.text; {
		case t == "{":
			p.advance()
			p.open()
		case t == "}":
			p.advance()
			p.closeScope()
		case t == ".reg":
			p.advance()
			p.registers()
		case t == ".shared":
			p.advance()
			p.place(p.sharedArray(false))
		case t == ".pragma": // advice to the optimiser
			for p.take() != ";" {
			}
		default:
			p.statement()
		}
	}
}

func (p *parser) open() {
	if len(p.scopes) == maxDepth {
		p.fail("more than %d nested scopes", maxDepth)
	}
	p.scopes = append(p.scopes, map[string]declared{})
	p.ranges = append(p.ranges, map[string]declared{})
	p.counts = append(p.counts, map[string]int{})
}

func (p *parser) closeScope() {
	n := len(p.scopes) - 1
	p.scopes, p.ranges, p.counts = p.scopes[:n], p.ranges[:n], p.counts[:n]
}

// registers reads a declaration, after .reg.
func (p *parser) registers() {
	typ := strings.TrimPrefix(p.take(), ".")
	width := 1
	if typ != "pred" {
		if width = 8 * gpu.TypeSize(typ); width == 0 {
			p.fail("registers of type %s are not supported", typ)
		}
	}
	top := len(p.scopes) - 1
	for {
		name, n := p.take(), 1
		if p.accept("<") {
			n = p.number(maxRegisters)
			p.expect(">")
			p.ranges[top][name], p.counts[top][name] = declared{p.newRegisters(n, width), width}, n
		} else {
			p.scopes[top][name] = declared{p.newRegisters(1, width), width}
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

// newRegisters returns the first of n new ones.
func (p *parser) newRegisters(n, width int) int {
	count := &p.k.numRegs
	if width == 1 {
		count = &p.k.numPreds
	}
	first := *count
	if *count += n; *count > maxRegisters {
		p.fail("more than %d registers", maxRegisters)
	}
	return first
}

// sharedArray reads a declaration, after .shared.
func (p *parser) sharedArray(external bool) (string, variable) {
	align := 1
	if p.accept(".align") {
		align = p.number(1024)
	}
	size := gpu.TypeSize(strings.TrimPrefix(p.take(), "."))
	name := p.take()
	if p.accept("[") {
		if p.tok.text != "]" {
			size *= p.number(maxShared)
		}
		p.expect("]")
	}
	p.expect(";")
	if size == 0 || align == 0 || align&(align-1) != 0 {
		p.fail("shared memory of an unknown size or alignment")
	}
	return name, variable{size: size, align: align, external: external}
}

// place gives an array its place in the block's shared memory.
func (p *parser) place(name string, v variable) variable {
	if !v.external {
		v.at = (p.k.shared + v.align - 1) &^ (v.align - 1)
		if p.k.shared = v.at + v.size; p.k.shared > maxShared {
			p.fail("more than %d bytes of shared memory", maxShared)
		}
	}
	p.shared[name] = v
	return v
}

// link gives jumps their targets.
func (p *parser) link() {
	for _, j := range p.jumps {
		to, ok := p.labels[j.to]
		if !ok || to >= len(p.k.code) {
			panic(&ParseError{Line: j.line, Reason: fmt.Sprintf("there is no instruction behind a label %s", j.to)})
		}
		p.k.code[j.from].target = to
	}
	if n := len(p.k.code); n == 0 || (p.k.code[n-1].kind != exits && p.k.code[n-1].kind != jumps) || p.k.code[n-1].guard >= 0 {
		p.fail("kernel %s does not end with ret", p.k.name)
	}
}
