package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
)

// optional is what some decoders have and others do not.
type optional struct {
	b                         *cpu.Backend
	x, y, qkv, narrow         compute.Buffer
	hidden, head, bias, short compute.Vector
	spec                      compute.AttentionSpec
	experts                   *compute.Experts
}

func newOptional(t *testing.T, b *cpu.Backend) *optional {
	o := &optional{b: b, spec: compute.AttentionSpec{NumHeads: 4, NumKVHeads: 2, HeadDim: 8}}
	buffer := func(cols int) compute.Buffer {
		buf, err := b.NewBuffer(9, cols)
		require.NoError(t, err)
		return buf
	}
	vector := func(n int) compute.Vector {
		v, err := b.NewVector(compute.RawTensor{Name: "v", Rows: 1, Cols: n, Data: make([]byte, 4*n)})
		require.NoError(t, err)
		return v
	}
	matrix := func(rows, cols int) compute.Matrix {
		m, err := b.NewMatrix(compute.RawTensor{Name: "m", Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)})
		require.NoError(t, err)
		return m
	}
	o.x, o.y, o.qkv, o.narrow = buffer(32), buffer(32), buffer(64), buffer(7)
	o.hidden, o.head, o.bias, o.short = vector(32), vector(8), vector(64), vector(3)
	o.experts = &compute.Experts{Router: matrix(3, 32), PerToken: 2}
	for range 3 {
		o.experts.GateUp, o.experts.Down = append(o.experts.GateUp, matrix(20, 32)), append(o.experts.Down, matrix(32, 10))
	}
	return o
}

func (o *optional) step() {
	o.b.Scale(o.x, 0.5, 9)
	o.b.AddBias(o.qkv, o.bias, 9)
	o.b.HeadNorm(o.qkv, o.spec, o.head, o.head, 1e-6, 9)
	o.b.RMSNormAdd(o.x, o.y, o.hidden, 1e-6, 9)
	o.b.ExpertsAdd(o.x, o.y, o.experts, 9)
	o.b.GeluMul(o.x, o.qkv, 9)
	o.b.SoftCap(o.x, 30, 9)
}

func TestOptionalOperationsAllocateNothing(t *testing.T) {
	for _, threads := range []int{1, 3} {
		o := newOptional(t, newBackend(t, cpu.Options{Threads: threads}))
		o.step()
		require.Zero(t, testing.AllocsPerRun(20, o.step), "%d threads", threads)
	}
}

func TestOptionalOperationsRefuseWrongShapes(t *testing.T) {
	o := newOptional(t, newBackend(t, cpu.Options{Threads: 2}))
	few, many := *o.experts, *o.experts
	few.Down, many.PerToken = few.Down[:2], 4
	for i, f := range []func(){
		func() { o.b.Scale(o.x, 1, 10) },
		func() { o.b.Scale(o.x, 1, -1) },
		func() { o.b.AddBias(o.x, o.bias, 1) },
		func() { o.b.HeadNorm(o.qkv, o.spec, o.head, o.short, 1e-6, 1) },
		func() { o.b.HeadNorm(o.x, o.spec, o.head, o.head, 1e-6, 1) },
		func() { o.b.RMSNormAdd(o.x, o.narrow, o.hidden, 1e-6, 1) },
		func() { o.b.RMSNormAdd(o.x, o.y, o.hidden, 1e-6, 10) },
		func() { o.b.ExpertsAdd(o.x, o.y, &few, 1) },
		func() { o.b.ExpertsAdd(o.x, o.y, &many, 1) },
		func() { o.b.ExpertsAdd(o.x, o.narrow, o.experts, 1) },
		func() { o.b.ExpertsAdd(o.x, o.y, o.experts, 10) },
		func() { o.b.GeluMul(o.x, o.y, 1) },
		func() { o.b.SoftCap(o.x, 0, 1) },
	} {
		require.Panics(t, f, "call %d", i)
	}
	o.step()
	require.NoError(t, o.b.Sync(), "the backend goes on")
}
