package cuda

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// kvCache holds keys and values as kernels/cuda/src/cache.h describes: of each layer the keys,
// then the values, and of Int8 the units of both.
type kvCache struct {
	b      *Backend
	spec   compute.KVSpec
	p      Ptr
	keys   int // bytes of a layer's keys, and of its values
	units  int // bytes of a layer's units of keys, and of those of values; 0 without
	padded int // head_dim rounded up to vectors
}

// vector is how many elements kernels read at a time.
const vector = 8

// Spec implements compute.KVCache.
func (c *kvCache) Spec() compute.KVSpec { return c.spec }

// Free implements compute.KVCache.
func (c *kvCache) Free() {
	if c.p == 0 {
		return
	}
	c.b.note(c.b.stream.Sync())
	c.b.note(c.b.mem.free(c.p))
	c.p = 0
}

// NewKVCache implements compute.Backend.
func (b *Backend) NewKVCache(spec compute.KVSpec) (compute.KVCache, error) {
	if _, ok := cacheKernels[spec.DType]; !ok {
		return nil, fmt.Errorf("compute/cuda: a cache cannot hold element type %d", spec.DType)
	}
	if spec.HeadDim > maxHeadDim {
		return nil, fmt.Errorf("compute/cuda: head_dim is %d; heads have at most %d elements here", spec.HeadDim, maxHeadDim)
	}
	c := &kvCache{b: b, spec: spec, padded: ceil(spec.HeadDim, vector) * vector}
	slots, ok1 := compute.Product(spec.NumBlocks, spec.BlockSize)
	total, ok2 := compute.Product(2, spec.NumLayers, spec.NumBlocks, spec.BlockSize, spec.NumKVHeads, c.padded+4, spec.DType.Size())
	if !ok1 || !ok2 || total < 1 || spec.NumLayers < 1 || spec.NumBlocks < 1 || slots > 1<<31-1 || spec.HeadDim < 1 {
		return nil, fmt.Errorf("compute/cuda: a KV cache of %+v has no size that is possible", spec)
	}
	heads := int(slots) * spec.NumKVHeads
	c.keys = align(heads * c.padded * spec.DType.Size())
	if spec.DType == compute.Int8 {
		c.units = align(4 * heads)
	}
	var err error
	c.p, err = b.mem.alloc(int64(spec.NumLayers)*int64(c.layerBytes()), "KV cache")
	return c, err
}

func align(n int) int { return (n + 255) &^ 255 }

func (c *kvCache) layerBytes() int { return 2 * (c.keys + c.units) }

// layer says where the parts of a layer are.
func (c *kvCache) layer(i int) (keys, values, keyUnits, valueUnits Ptr) {
	keys = c.p + Ptr(i*c.layerBytes())
	values = keys + Ptr(c.keys)
	keyUnits = values + Ptr(c.keys)
	return keys, values, keyUnits, keyUnits + Ptr(c.units)
}

// cacheKernel are the kernels of an element type: attend by how many heads at a time.
type cacheKernel struct {
	store  kernels.RopeStoreKernel
	attend [3]kernels.AttendKernel // 1, 2, 4 heads
}

var cacheKernels = map[compute.DType]cacheKernel{
	compute.F32:  {kernels.KernelRopeStoreF32, [3]kernels.AttendKernel{kernels.KernelAttend1F32, kernels.KernelAttend2F32, kernels.KernelAttend4F32}},
	compute.F16:  {kernels.KernelRopeStoreF16, [3]kernels.AttendKernel{kernels.KernelAttend1F16, kernels.KernelAttend2F16, kernels.KernelAttend4F16}},
	compute.BF16: {kernels.KernelRopeStoreBf16, [3]kernels.AttendKernel{kernels.KernelAttend1Bf16, kernels.KernelAttend2Bf16, kernels.KernelAttend4Bf16}},
	compute.Int8: {kernels.KernelRopeStoreI8, [3]kernels.AttendKernel{kernels.KernelAttend1I8, kernels.KernelAttend2I8, kernels.KernelAttend4I8}},
}
