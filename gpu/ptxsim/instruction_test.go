package ptxsim_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

const head = ".version 7.8\n.target sm_80\n.address_size 64\n"

// one is a kernel around one instruction. Its three parameters are there as %rd1 to
// %rd3, as %r1…, %rs1… and %f1… of their low bits and, if they are not 0, as %p1….
// The result is %rd0, %r0, %rs0, %f0 or %p0.
func one(inst string) string {
	var b strings.Builder
	b.WriteString(head + ".visible .entry one(.param .u64 out, .param .u64 a1, .param .u64 a2, .param .u64 a3)\n{\n" +
		".reg .b64 %rd<5>;\n.reg .b32 %r<5>;\n.reg .b16 %rs<5>;\n.reg .f32 %f<5>;\n.reg .pred %p<5>;\nld.param.u64 %rd4, [out];\n")
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(&b, "ld.param.u64 %%rd%d, [a%d];\ncvt.u32.u64 %%r%d, %%rd%d;\ncvt.u16.u64 %%rs%d, %%rd%d;\nmov.b32 %%f%d, %%r%d;\nsetp.ne.s64 %%p%d, %%rd%d, 0;\n",
			i, i, i, i, i, i, i, i, i, i)
	}
	b.WriteString(inst + "\n")
	switch {
	case strings.Contains(inst, "%r0"):
		b.WriteString("cvt.u64.u32 %rd0, %r0;\n")
	case strings.Contains(inst, "%rs0"):
		b.WriteString("cvt.u64.u16 %rd0, %rs0;\n")
	case strings.Contains(inst, "%f0"):
		b.WriteString("mov.b32 %r0, %f0;\ncvt.u64.u32 %rd0, %r0;\n")
	case strings.Contains(inst, "%p0"):
		b.WriteString("selp.b64 %rd0, 1, 0, %p0;\n")
	}
	b.WriteString("st.global.u64 [%rd4], %rd0;\nret;\n}\n")
	return b.String()
}

func f(v float32) uint64 { return uint64(math.Float32bits(v)) }

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// neg is a negative number of 32 bits.
func neg(v int32) uint64 { return uint64(uint32(-v)) }

var instructions = []struct {
	inst    string
	a, b, c uint64
	want    uint64
}{
	{"add.s32 %r0, %r1, %r2;", 0xffffffff, 2, 0, 1},
	{"add.s64 %rd0, %rd1, -1;", 1 << 40, 0, 0, 1<<40 - 1},
	{"add.s16 %rs0, %rs1, %rs2;", 0xffff, 3, 0, 2},
	{"sub.s32 %r0, %r1, %r2;", 1, 3, 0, neg(2)},
	{"sub.s64 %rd0, %rd1, %rd2;", 1, 3, 0, 1<<64 - 2},
	{"mul.lo.s32 %r0, %r1, %r2;", 0x10001, 0x10001, 0, 0x20001},
	{"mul.lo.s64 %rd0, %rd1, %rd2;", 1 << 40, 3, 0, 3 << 40},
	{"mul.hi.u32 %r0, %r1, %r2;", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
	{"mul.hi.s32 %r0, %r1, %r2;", 0xffffffff, 5, 0, 0xffffffff},
	{"mul.hi.s64 %rd0, %rd1, %rd2;", 1<<64 - 1, 5, 0, 1<<64 - 1},
	{"mul.wide.s32 %rd0, %r1, %r2;", neg(2), 3, 0, 1<<64 - 6},
	{"mul.wide.u32 %rd0, %r1, 4;", 0xffffffff, 0, 0, 0x3fffffffc},
	{"mul.wide.u16 %r0, %rs1, %rs2;", 0xffff, 2, 0, 0x1fffe},
	{"mul.wide.s16 %r0, %rs1, %rs2;", 0xffff, 2, 0, neg(2)},
	{"mad.lo.s32 %r0, %r1, %r2, %r3;", 3, 5, 0xffffffff, 14},
	{"mad.wide.s32 %rd0, %r1, %r2, %rd3;", neg(3), 5, 20, 5},
	{"div.s32 %r0, %r1, %r2;", neg(7), 2, 0, neg(3)},
	{"div.u32 %r0, %r1, %r2;", 0xfffffff9, 2, 0, 0x7ffffffc},
	{"div.s32 %r0, %r1, %r2;", 7, 0, 0, 0xffffffff},
	{"div.s32 %r0, %r1, %r2;", 0x80000000, 0xffffffff, 0, 0x80000000},
	{"rem.s32 %r0, %r1, %r2;", neg(7), 2, 0, neg(1)},
	{"rem.u64 %rd0, %rd1, %rd2;", 1 << 40, 7, 0, (1 << 40) % 7},
	{"min.s32 %r0, %r1, %r2;", neg(7), 2, 0, neg(7)},
	{"max.s32 %r0, %r1, %r2;", neg(7), 2, 0, 2},
	{"min.u32 %r0, %r1, %r2;", neg(7), 2, 0, 2},
	{"max.u64 %rd0, %rd1, %rd2;", 1<<64 - 1, 2, 0, 1<<64 - 1},
	{"neg.s32 %r0, %r1;", 5, 0, 0, neg(5)},
	{"abs.s32 %r0, %r1;", neg(5), 0, 0, 5},
	{"popc.b32 %r0, %r1;", 0xf00ff, 0, 0, 12},
	{"clz.b32 %r0, %r1;", 1, 0, 0, 31},
	{"brev.b32 %r0, %r1;", 3, 0, 0, 0xc0000000},
	{"and.b32 %r0, %r1, 12;", 10, 0, 0, 8},
	{"or.b64 %rd0, %rd1, %rd2;", 1 << 40, 1, 0, 1<<40 | 1},
	{"xor.b32 %r0, %r1, -1;", 0xf, 0, 0, 0xfffffff0},
	{"not.b32 %r0, %r1;", 0xf, 0, 0, 0xfffffff0},
	{"and.b16 %rs0, %rs1, %rs2;", 0x1ff0, 0xfff, 0, 0xff0},
	{"shl.b32 %r0, %r1, %r2;", 3, 31, 0, 0x80000000},
	{"shl.b32 %r0, %r1, %r2;", 3, 32, 0, 0},
	{"shl.b64 %rd0, %rd1, 33;", 3, 0, 0, 3 << 33},
	{"shl.b64 %rd0, %rd1, %r2;", 3, 64, 0, 0},
	{"shr.u32 %r0, %r1, %r2;", 0x80000000, 31, 0, 1},
	{"shr.u32 %r0, %r1, %r2;", 0x80000000, 40, 0, 0},
	{"shr.s32 %r0, %r1, %r2;", 0x80000000, 40, 0, 0xffffffff},
	{"shr.u16 %rs0, %rs1, 4;", 0x8000, 0, 0, 0x800},
	{"shr.u64 %rd0, %rd1, %r2;", 1 << 63, 63, 0, 1},
	{"shf.l.wrap.b32 %r0, %r1, %r2, 8;", 0x11223344, 0x55667788, 0, 0x66778811},
	{"shf.r.wrap.b32 %r0, %r1, %r2, 8;", 0x11223344, 0x55667788, 0, 0x88112233},
	{"shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 0x11223344, 0x55667788, 99, 0x55667788},
	{"bfe.u32 %r0, %r1, 4, 8;", 0xabcd, 0, 0, 0xbc},
	{"bfe.s32 %r0, %r1, 4, 4;", 0xabcd, 0, 0, 0xfffffffc},
	{"bfe.u32 %r0, %r1, %r2, %r3;", 0xffffffff, 40, 8, 0},
	{"bfe.s32 %r0, %r1, %r2, %r3;", 0x80000000, 28, 99, 0xfffffff8},
	{"prmt.b32 %r0, %r1, %r2, 0x7610;", 0x33221100, 0x77665544, 0, 0x77661100},
	{"prmt.b32 %r0, %r1, %r2, 0x0008;", 0x00000080, 0, 0, 0x808080ff},
	{"mov.u32 %r0, 0x12345678;", 0, 0, 0, 0x12345678},
	{"mov.b64 %rd0, {%r1, %r2};", 1, 2, 0, 2<<32 | 1},
	{"mov.b64 {%r1, %r0}, %rd1;", 7<<32 | 1, 0, 0, 7},
	{"mov.b32 {%rs0, %rs1}, %r1;", 0xabcd1234, 0, 0, 0x1234},
	{"mov.f32 %f0, 0f3FC00000;", 0, 0, 0, f(1.5)},
	{"mov.pred %p0, %p1;", 1, 0, 0, 1},
	{"and.pred %p0, %p1, %p2;", 1, 0, 0, 0},
	{"or.pred %p0, %p1, %p2;", 1, 0, 0, 1},
	{"xor.pred %p0, %p1, %p2;", 1, 1, 0, 0},
	{"not.pred %p0, %p1;", 0, 0, 0, 1},
	{"selp.b32 %r0, %r1, %r2, %p3;", 1, 2, 0, 2},
	{"selp.f32 %f0, %f1, 0f40000000, %p3;", f(1), 0, 1, f(1)},
	{"@%p1 mov.u32 %r2, 9; mov.u32 %r0, %r2;", 0, 5, 0, 5},
	{"@!%p1 mov.u32 %r2, 9; mov.u32 %r0, %r2;", 0, 5, 0, 9},
	{"setp.lt.s32 %p0, %r1, %r2;", neg(1), 0, 0, 1},
	{"setp.lt.u32 %p0, %r1, %r2;", neg(1), 0, 0, 0},
	{"setp.ge.s32 %p0, %r1, -1;", neg(1), 0, 0, 1},
	{"setp.gt.s64 %p0, %rd1, %rd2;", 1<<64 - 1, 0, 0, 0},
	{"setp.hi.u64 %p0, %rd1, %rd2;", 1<<64 - 1, 0, 0, 1},
	{"setp.le.s16 %p0, %rs1, %rs2;", 0xffff, 0, 0, 1},
	{"setp.ne.s32 %p0, %r1, %r2;", 1 << 32, 0, 0, 0},
	{"setp.lt.f32 %p0, %f1, %f2;", f(-1), f(1), 0, 1},
	{"setp.ltu.f32 %p0, %f1, %f2;", f(nan), f(1), 0, 1},
	{"setp.neu.f32 %p0, %f1, %f2;", f(nan), f(nan), 0, 1},
	{"setp.eq.f32 %p0, %f1, %f2;", f(0), 0x80000000, 0, 1},
	{"setp.nan.f32 %p0, %f1, %f2;", f(1), f(nan), 0, 1},
	{"add.rn.f32 %f0, %f1, %f2;", f(1), f(0x1p-24), 0, f(1)},
	{"sub.f32 %f0, %f1, %f2;", f(1), f(3), 0, f(-2)},
	{"mul.rn.f32 %f0, %f1, %f2;", f(3), f(0x1p-149), 0, 3},
	{"fma.rn.f32 %f0, %f1, %f2, %f3;", f(1 + 0x1p-23), f(1 + 0x1p-23), f(-1), f(0x1p-22 + 0x1p-46)},
	{"div.rn.f32 %f0, %f1, %f2;", f(1), f(3), 0, f(1.0 / 3)},
	{"max.f32 %f0, %f1, %f2;", f(nan), f(-3), 0, f(-3)},
	{"max.f32 %f0, %f1, %f2;", 0x80000000, 0, 0, 0},
	{"min.f32 %f0, %f1, %f2;", 0x80000000, 0, 0, 0x80000000},
	{"min.f32 %f0, %f1, %f2;", f(2), f(nan), 0, f(2)},
	{"neg.f32 %f0, %f1;", f(2), 0, 0, f(-2)},
	{"abs.f32 %f0, %f1;", f(-2), 0, 0, f(2)},
	{"ex2.approx.ftz.f32 %f0, %f1;", f(-3), 0, 0, f(0.125)},
	{"ex2.approx.ftz.f32 %f0, %f1;", f(-130), 0, 0, 0},
	{"lg2.approx.ftz.f32 %f0, %f1;", f(8), 0, 0, f(3)},
	{"rcp.approx.ftz.f32 %f0, %f1;", 1, 0, 0, f(inf)},
	{"rcp.rn.f32 %f0, %f1;", f(4), 0, 0, f(0.25)},
	{"rsqrt.approx.ftz.f32 %f0, %f1;", f(4), 0, 0, f(0.5)},
	{"sqrt.rn.f32 %f0, %f1;", f(9), 0, 0, f(3)},
	{"cvt.s64.s32 %rd0, %r1;", neg(5), 0, 0, 1<<64 - 5},
	{"cvt.u64.u32 %rd0, %r1;", neg(5), 0, 0, neg(5)},
	{"cvt.s8.s32 %r0, %r1;", 0x180, 0, 0, 0xffffff80},
	{"cvt.s8.s32 %rs0, %r1;", 0x180, 0, 0, 0xff80},
	{"cvt.u16.u32 %rs0, %r1;", 0x12345, 0, 0, 0x2345},
	{"cvt.rn.f32.s32 %f0, %r1;", neg(5), 0, 0, f(-5)},
	{"cvt.rn.f32.u32 %f0, %r1;", neg(1), 0, 0, f(0x1p32)},
	{"cvt.rn.f32.s16 %f0, %rs1;", 0xffff, 0, 0, f(-1)},
	{"cvt.rn.f32.s64 %f0, %rd1;", 1<<64 - 9, 0, 0, f(-9)},
	{"cvt.rni.s32.f32 %r0, %f1;", f(-2.5), 0, 0, neg(2)},
	{"cvt.rzi.s32.f32 %r0, %f1;", f(-2.9), 0, 0, neg(2)},
	{"cvt.rmi.s32.f32 %r0, %f1;", f(-2.1), 0, 0, neg(3)},
	{"cvt.rpi.s32.f32 %r0, %f1;", f(2.1), 0, 0, 3},
	{"cvt.rzi.s32.f32 %r0, %f1;", f(1e10), 0, 0, 0x7fffffff},
	{"cvt.rzi.s32.f32 %r0, %f1;", f(-1e10), 0, 0, 0x80000000},
	{"cvt.rzi.u32.f32 %r0, %f1;", f(-1), 0, 0, 0},
	{"cvt.rzi.u32.f32 %r0, %f1;", f(inf), 0, 0, 0xffffffff},
	{"cvt.rzi.s32.f32 %r0, %f1;", f(nan), 0, 0, 0},
	{"cvt.f32.f16 %f0, %rs1;", 0xc000, 0, 0, f(-2)},
	{"cvt.f32.f16 %f0, %rs1;", 1, 0, 0, f(0x1p-24)},
	{"cvt.rn.f16.f32 %rs0, %f1;", f(65504), 0, 0, 0x7bff},
	{"cvt.rn.f16.f32 %rs0, %f1;", f(65520), 0, 0, 0x7c00},
	{"cvt.rn.f16.f32 %rs0, %f1;", f(1 + 0x1p-11), 0, 0, 0x3c00},
	{"cvt.rn.f16.f32 %rs0, %f1;", f(1 + 0x3p-11), 0, 0, 0x3c02},
	{"cvt.rn.f16.f32 %rs0, %f1;", f(0x1.8p-24), 0, 0, 2},
	{"cvt.rn.bf16.f32 %rs0, %f1;", f(1 + 0x1p-8), 0, 0, 0x3f80},
	{"cvt.rn.bf16.f32 %rs0, %f1;", f(1 + 0x3p-8), 0, 0, 0x3f82},
	{"cvt.rn.bf16x2.f32 %r0, %f1, %f2;", f(2), f(1), 0, 0x40003f80},
	{"cvt.rn.f16x2.f32 %r0, %f1, %f2;", f(2), f(1), 0, 0x40003c00},
}

func TestInstructions(t *testing.T) {
	driver := ptxsim.New(ptxsim.Options{})
	r := &rig{t: t, driver: driver}
	r.dev = r.open(0)
	out := r.room(2)
	for _, c := range instructions {
		r.stream, r.mod = r.must(r.dev, one(c.inst))
		require.NoError(t, r.launch("one", 1, 1, uint64(out), c.a, c.b, c.c), c.inst)
		v := r.read(out, 2)
		require.Equal(t, fmt.Sprintf("%#x", c.want), fmt.Sprintf("%#x", uint64(v[1])<<32|uint64(v[0])), "%s with %#x, %#x, %#x", c.inst, c.a, c.b, c.c)
	}
}

func TestFusedMultiplyAddRoundsOnce(t *testing.T) {
	r := newRig(t, one("fma.rn.f32 %f0, %f1, %f2, %f3;"), ptxsim.Options{})
	out := r.room(2)
	rng := newBits(7)
	for range 3000 {
		a, b := math.Float32frombits(rng()&0x807fffff|0x3f800000), math.Float32frombits(rng()&0x807fffff|0x3f800000)
		c := math.Float32frombits(rng()&0x807fffff | (100+rng()%32)<<23)
		require.NoError(t, r.launch("one", 1, 1, uint64(out), f(a), f(b), f(c)))
		require.Equal(t, exactFMA(a, b, c), math.Float32frombits(r.read(out, 1)[0]), "%x*%x+%x", a, b, c)
	}
}

func TestAFormThatIsNotKnownIsRefusedWithItsLine(t *testing.T) {
	driver := ptxsim.New(ptxsim.Options{})
	dev, err := driver.Open(0)
	require.NoError(t, err)
	require.NoError(t, dev.Bind())
	defer dev.Unbind()
	for inst, reason := range map[string]string{
		"wgmma.fence.sync.aligned;":      "line 28: instruction wgmma.fence.sync.aligned is not supported",
		"add.sat.s32 %r0, %r1, %r2;":     "modifier .sat is not supported here",
		"add.rn.f64 %rd0, %rd1, %rd2;":   "form add.rn.f64 of add is not supported",
		"add.s32 %r0, %r1;":              "2 operands where 3 are expected",
		"add.s32 %r0, %r1, %r9;":         `operand "%r9" is not known`,
		"add.s32 %p0, %r1, %r2;":         `operand "%p0" is no register`,
		"setp.lt.s32 %r0, %r1, %r2;":     "%r0 is no predicate",
		"setp.lt.s32 %p0|%p1, %r1, %r2;": `"|" in the operands of setp.lt.s32`,
		"ld.local.u32 %r0, [%rd1];":      "modifier .local is not supported here",
		"ld.param.u64 %rd0, [a3+8];":     "form ld.param.u64 of ld is not supported",
		"bra nowhere;":                   "no instruction behind a label nowhere",
		"bar.sync 1;":                    "only barrier 0 of all threads is supported",
		"mov.u32 %r0, %clock;":           `operand "%clock" is not known`,
		"mov.u32 %r0, {%r1, {%r2}};":     "a vector of more than 8 operands, or within another",
		"ld.global.u32 %r0, [[[%rd1]]];": "an address within an address",
		"`":                              "unexpected character '`'",
		"x: x:":                          "there are two labels x",
		"/* no end":                      "a comment has no end",
	} {
		_, err := dev.LoadModule("m", one("mov.u32 %r0, 0;\n"+inst))
		require.ErrorIs(t, err, gpu.InvalidPTX, inst)
		require.ErrorContains(t, err, reason, inst)
		var p *ptxsim.ParseError
		require.ErrorAs(t, err, &p)
		require.Positive(t, p.Line)
	}
}

func FuzzParse(fz *testing.F) {
	fz.Add(one("add.s32 %r0, %r1, %r2;"))
	fz.Add(planted)
	fz.Add(head + ".entry k() { .shared .b8 s[4]; ret; }")
	driver := ptxsim.New(ptxsim.Options{MaxBranches: 100})
	fz.Fuzz(func(t *testing.T, ptx string) {
		dev, err := driver.Open(0)
		require.NoError(t, err)
		require.NoError(t, dev.Bind())
		defer dev.Unbind()
		require.NoError(t, dev.Reset())
		mod, err := dev.LoadModule("fuzz", ptx)
		if err != nil {
			require.ErrorIs(t, err, gpu.InvalidPTX)
			return
		}
		entries, err := gpu.Entries(ptx)
		if err != nil {
			return
		}
		stream, err := dev.NewStream()
		require.NoError(t, err)
		for _, e := range entries {
			k, err := mod.Func(e.Name)
			if err != nil {
				continue
			}
			info := k.Info()
			_ = stream.Launch(k, gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{min(40, info.MaxThreads), 1, 1}}, make([]uint64, len(info.Params)))
			_ = stream.Sync() // a fault at most
		}
	})
}

// newBits returns a generator of 32 bits (xorshift, whose low bits do for tests).
func newBits(seed uint64) func() uint32 {
	return func() uint32 {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		return uint32(seed >> 16)
	}
}

// exactFMA rounds the exact sum to a float.
func exactFMA(a, b, c float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(float64(v)) }
	sum := exact(a)
	sum.Mul(sum, exact(b)).Add(sum, exact(c))
	v, _ := sum.Float32()
	return v
}
