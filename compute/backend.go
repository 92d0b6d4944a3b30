package compute

// DType is the element type of stored data.
type DType uint8

// Element types of weights and, those that are not quantised, of caches.
// Activations are always F32.
const (
	F32 DType = iota
	F16
	BF16

	// Blocks of integers with scales, as package kernels/cpu/quant describes them.
	Q8_0
	Q4_0
	Q4_K
	Q5_K
	Q6_K

	// Int8 is of caches only: a head's key or value is HeadDim integers from -127 to
	// 127 and their unit, an F32, a 127th of the largest magnitude among them.
	Int8
)

// Size returns bytes per element of a type that is not quantised, and of Int8.
func (d DType) Size() int {
	switch d {
	case F32:
		return 4
	case Int8:
		return 1
	}
	return 2
}

// String returns torch's name (float32, float16, bfloat16, int8) or ggml's (q8_0, …).
func (d DType) String() string {
	if t, ok := d.Quant(); ok {
		return t.String()
	}
	if d == Int8 {
		return "int8"
	}
	return [...]string{"float32", "float16", "bfloat16"}[d]
}

// RawTensor is a weight as it lies in a file: row-major little-endian bytes,
// usually a slice of a memory-mapped file. Vectors have Rows 1.
type RawTensor struct {
	Name  string
	DType DType
	Rows  int // output features
	Cols  int // input features; whole blocks of a quantised type
	Data  []byte

	// Quantize, if not F32, is a type that a matrix is to hold the elements in, where
	// their rows are whole blocks of it and they are not quantised yet. Only types
	// that can be made: Q8_0 and Q4_0.
	Quantize DType
}

// Matrix is a weight [rows, cols] in the backend's own layout.
type Matrix interface {
	Rows() int
	Cols() int
}

// Vector is a one-dimensional F32 weight.
type Vector interface{ Len() int }

// Buffer is an activation matrix [capacity rows, cols] of F32.
type Buffer interface {
	Cap() int // rows
	Cols() int
	// Free gives the memory back; the buffer may not be used afterwards. A second
	// call does nothing. Backend.Close frees what is left.
	Free()
}

// KVCache holds keys and values of all layers in blocks.
type KVCache interface {
	Spec() KVSpec
	// Free gives the memory back, as Buffer.Free does.
	Free()
}

// KVSpec sizes a KVCache.
type KVSpec struct {
	NumLayers, NumBlocks, BlockSize int
	NumKVHeads, HeadDim             int
	DType                           DType
	// Prefault takes all of the memory at once where the system would hand it out as
	// it is written to, and have a step wait for it.
	Prefault bool
}

// Bytes returns the memory that a cache of this size takes.
func (s KVSpec) Bytes() int64 {
	perHead := int64(s.HeadDim) * int64(s.DType.Size())
	if s.DType == Int8 {
		perHead += 4 // its unit
	}
	return 2 * int64(s.NumLayers) * int64(s.NumBlocks) * int64(s.BlockSize) * int64(s.NumKVHeads) * perHead
}

// Batch describes the rows of one step. Row i of every activation buffer
// belongs to token i. Once a backend was given a batch, it may not change until Sync.
type Batch struct {
	TokenIDs    []int32 // [num_tokens]
	Positions   []int32 // [num_tokens] position in its sequence
	SlotMapping []int32 // [num_tokens] block*block_size + offset, where its key and value go
	Seqs        []BatchSeq
}

// BatchSeq is one sequence's rows: QueryStart … QueryStart+QueryLen-1, the last
// QueryLen of ContextLen positions.
type BatchSeq struct {
	QueryStart, QueryLen int
	ContextLen           int     // positions in the cache once this step's keys are stored
	BlockTable           []int32 // blocks of positions 0 … ContextLen-1
}

// AttentionSpec is the shape of one attention layer. A qkv buffer's row holds
// NumHeads*HeadDim queries, then NumKVHeads*HeadDim keys, then as many values.
type AttentionSpec struct {
	NumHeads, NumKVHeads, HeadDim int
	Scale                         float32 // applied to q·k
	// SoftCap limits scaled scores smoothly, to SoftCap*tanh(score/SoftCap); 0 = not at all.
	SoftCap float32
	// Window is how many positions a query sees, its own the last of them; 0 = all.
	Window int
}

// Experts are the MLPs of a mixture, all of one shape, and what sends rows to them.
type Experts struct {
	Router Matrix   // [experts, hidden]
	GateUp []Matrix // per expert [2*intermediate, hidden]
	Down   []Matrix // per expert [hidden, intermediate]

	PerToken  int  // experts that a row goes through: those with the largest logits, of equal ones the first
	Normalize bool // the weights are softmax over those experts' logits; else over all logits
}

// RopeTable holds cosines and sines of rotary embedding (half-split "neox"
// form, as Hugging Face's Llama): row-major [max positions, HalfDim]. The first
// 2*HalfDim elements of a head are rotated; with partial rotation there are more.
type RopeTable struct {
	HalfDim  int
	Cos, Sin []float32
}

// Backend executes the operations of a decoder on one device. It is used from
// one goroutine at a time. Operations are enqueued in order; they return
// nothing, a device error is sticky and surfaces at Sync. A wrong shape is a
// broken invariant and panics at once.
//
// Every operation computes a row from that row alone (and, for Attention, from
// its own sequence's cache) by sums whose order depends on the row's shape
// only: a row's bits never depend on which other rows share the step.
type Backend interface {
	// Describe returns a line for people: device, instruction set, threads.
	Describe() string

	// AvailableMemory returns how many bytes of the device's own memory weights, buffers
	// and caches may still take together; own is false if they take the host's.
	AvailableMemory() (bytes int64, own bool)

	// Fork returns another backend of the same device, with threads, buffers and
	// caches of its own, that may be used and closed while this one is in use,
	// and even if an operation of this one never ends. Matrices, vectors and rope
	// tables of either are for both: their memory is given back when the last of
	// all forks is closed.
	Fork() (Backend, error)

	// NewMatrix stacks the parts by rows (fused QKV, gate+up) into one weight,
	// copied and repacked: the parts' Data may be unmapped afterwards. All parts
	// have the same Cols. Of quantised types nothing is rounded; a product with them
	// rounds activations to 8 bits, by blocks of 32.
	NewMatrix(parts ...RawTensor) (Matrix, error)
	// NewVector converts a weight of a type that is not quantised to F32.
	NewVector(t RawTensor) (Vector, error)
	NewBuffer(rows, cols int) (Buffer, error)
	NewKVCache(spec KVSpec) (KVCache, error)
	NewRope(t RopeTable) (Rope, error)

	// Embed sets row i of dst to row ids[i] of table.
	Embed(dst Buffer, table Matrix, ids []int32)
	// RMSNorm sets dst = src / rms(src) * w for rows rows.
	RMSNorm(dst, src Buffer, w Vector, eps float32, rows int)
	// Linear sets dst = src · wᵀ for rows rows; dst has w.Rows() columns.
	Linear(dst, src Buffer, w Matrix, rows int)
	// LinearAdd adds src · wᵀ to dst (the residual stream).
	LinearAdd(dst, src Buffer, w Matrix, rows int)
	// RopeStore rotates queries and keys of qkv in place by their positions and
	// writes keys and values to the cache's slots.
	RopeStore(qkv Buffer, spec AttentionSpec, rope Rope, kv KVCache, layer int, b *Batch)
	// Attention sets dst [num_tokens, num_heads*head_dim] to causal attention of
	// qkv's queries over the cache.
	Attention(dst, qkv Buffer, spec AttentionSpec, kv KVCache, layer int, b *Batch)
	// SiluMul sets dst = silu(gate) * up, where a row of gateUp is gate then up.
	SiluMul(dst, gateUp Buffer, rows int)
	// GeluMul is SiluMul with gelu in its approximation by tanh.
	GeluMul(dst, gateUp Buffer, rows int)
	// ExpertsAdd adds Σ weight * down(silu(gate) * up) of the experts that each row of
	// src is routed to to the row of dst, in the order of the experts.
	ExpertsAdd(dst, src Buffer, e *Experts, rows int)
	// RMSNormAdd adds src / rms(src) * w to dst (the residual stream).
	RMSNormAdd(dst, src Buffer, w Vector, eps float32, rows int)
	// HeadNorm replaces every query of qkv by itself / rms * query, and every key by
	// itself / rms * key; both weights have a head's length.
	HeadNorm(qkv Buffer, spec AttentionSpec, query, key Vector, eps float32, rows int)
	// AddBias adds bias to every row of dst.
	AddBias(dst Buffer, bias Vector, rows int)
	// Scale multiplies dst by factor.
	Scale(dst Buffer, factor float32, rows int)
	// SoftCap replaces the elements x of dst by limit * tanh(x/limit), limit > 0.
	SoftCap(dst Buffer, limit float32, rows int)
	// Gather sets row i of dst to row rows[i] of src.
	Gather(dst, src Buffer, rows []int32)

	// Sync waits for what was enqueued and returns the first error since the last Sync.
	Sync() error
	// Host returns rows [from, from+n) of a buffer for reading, valid until the next
	// call of Host or operation on the buffer. Call Sync first. The host may write to
	// them, too, but whether the buffer holds that afterwards is undefined: they are a
	// copy where the device has memory of its own.
	Host(b Buffer, from, n int) []float32
	// Upload sets whole rows of a buffer, from row from on. values are free again when
	// it returns.
	Upload(dst Buffer, from int, values []float32)

	// Close stops the threads and frees the buffers and caches. A second call does
	// nothing.
	Close() error
}

// Binder is a Backend that costs less while it belongs to one goroutine.
type Binder interface {
	// Bind has the backend belong to the calling goroutine, on a thread of its own, until
	// that calls Unbind.
	Bind() error
	Unbind()
}

// Rope is a RopeTable in the backend's memory.
type Rope interface{ MaxPositions() int }
