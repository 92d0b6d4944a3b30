package model

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/machine"
)

const (
	defaultBlockSize = 16
	maxBlockSize     = 1 << 10
	maxBlocks        = 1 << 24

	// defaultKVCacheBytes caps the cache when no flag sizes it: the machine is
	// shared with others.
	defaultKVCacheBytes = 4 << 30

	// fallbackMemory is assumed to be available where the system does not say.
	fallbackMemory = 4 << 30
)

// sizes are the limits that follow from the options, the config and the memory.
type sizes struct {
	maxModelLen int // tokens
	kv          compute.KVSpec
}

// resolveSizes decides on the context length and the number of KV blocks. At
// least one sequence of the whole context always fits. left is what the weights leave.
func resolveSizes(c *Config, o *Options, dtype compute.DType, left memory) (sizes, error) {
	s := sizes{kv: compute.KVSpec{
		NumLayers: c.NumLayers, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim,
		BlockSize: o.BlockSize, NumBlocks: 1, DType: dtype, Prefault: o.PrefaultKVCache,
	}}
	blockBytes := s.kv.Bytes()
	if o.draftKV.NumLayers > 0 {
		o.draftKV.BlockSize, o.draftKV.NumBlocks, o.draftKV.DType = o.BlockSize, 1, dtype
		blockBytes += o.draftKV.Bytes()
	}
	longest := c.MaxPositionEmbeddings
	if o.MaxModelLen > 0 {
		longest = o.MaxModelLen
	}
	perSequence := blocksFor(longest, o.BlockSize)
	switch {
	case o.NumBlocksOverride > 0:
		s.kv.NumBlocks = o.NumBlocksOverride
	case o.KVCacheMemoryBytes > 0:
		s.kv.NumBlocks = int(min(o.KVCacheMemoryBytes/blockBytes, maxBlocks))
	default:
		budget := max(0, left.cacheBudget()) / blockBytes
		s.kv.NumBlocks = int(min(int64(perSequence)*int64(o.MaxNumSeqs), budget, maxBlocks))
	}
	s.maxModelLen = longest
	if s.kv.NumBlocks < perSequence {
		if o.MaxModelLen != -1 || s.kv.NumBlocks < 1 {
			return sizes{}, left.cacheTooSmall(s.kv, blockBytes, longest, o)
		}
		s.maxModelLen = s.kv.NumBlocks * o.BlockSize
	}
	return s, left.checkPrefault(&s.kv, blockBytes)
}

// checkPrefault refuses a cache that is to take more memory at once than there is.
func (m memory) checkPrefault(kv *compute.KVSpec, blockBytes int64) error {
	bytes := int64(kv.NumBlocks) * blockBytes
	if !kv.Prefault || bytes <= m.bytes {
		return nil
	}
	return infer.Errorf(infer.CodeInvalid, "kv_cache_prefault",
		"--kv-cache-prefault takes %d bytes of memory for the KV cache, but only %d are available: make the cache smaller, or let it take memory as it is used",
		bytes, max(m.bytes, 0))
}

// memory is what can be taken.
type memory struct {
	bytes int64
	own   bool // a device's own, which is there for the model alone; else the machine's
}

// availableTo returns the memory that a backend's weights and caches may take.
func availableTo(b compute.Backend) memory {
	if n, own := b.AvailableMemory(); own {
		return memory{n, true}
	}
	return memory{bytes: availableMemory()}
}

// availableMemory returns the bytes that can be taken without swapping, and without
// meeting the limit of a control group.
func availableMemory() int64 {
	l := machine.Read()
	if l.Total == 0 {
		return fallbackMemory
	}
	return l.Available
}

// cacheBudget returns how much of it the cache takes when no flag sizes it. A device's own
// is for it but for the buffers of a step.
func (m memory) cacheBudget() int64 {
	if m.own {
		return m.bytes / 8 * 7
	}
	return min(m.bytes/4, defaultKVCacheBytes)
}

// blocksFor returns how many blocks hold n tokens.
func blocksFor(n, blockSize int) int { return (n + blockSize - 1) / blockSize }

// cacheTooSmall names the flag that decided the size.
func (m memory) cacheTooSmall(kv compute.KVSpec, blockBytes int64, longest int, o *Options) error {
	need := blocksFor(longest, o.BlockSize)
	param, cause := "kv_cache_memory_bytes", "a quarter of the available memory, at most 4 GiB"
	if m.own {
		cause = "seven eighths of the device's memory that the weights leave"
	}
	remedy := "set --kv-cache-memory-bytes"
	switch {
	case o.NumBlocksOverride > 0:
		param, cause, remedy = "num_gpu_blocks_override", "--num-gpu-blocks-override", "raise it"
	case o.KVCacheMemoryBytes > 0:
		cause, remedy = "--kv-cache-memory-bytes", "raise it"
	}
	if kv.NumBlocks > 0 {
		remedy += fmt.Sprintf(", or lower --max-model-len to at most %d", kv.NumBlocks*kv.BlockSize)
	}
	return infer.Errorf(infer.CodeInvalid, param,
		"the KV cache holds %d blocks of %d tokens (set by %s), but one sequence of %d tokens needs %d blocks, %d bytes: %s",
		kv.NumBlocks, kv.BlockSize, cause, longest, need, int64(need)*blockBytes, remedy)
}

// validate checks the options that do not depend on the model and fills in the
// block size.
func (o *Options) validate() error {
	bad := func(param, format string, args ...any) error {
		return infer.Errorf(infer.CodeInvalid, param, format, args...)
	}
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	switch {
	case o.Backend == nil:
		return bad("device", "no compute backend is given")
	case o.BlockSize < 1 || o.BlockSize > maxBlockSize:
		return bad("block_size", "--block-size is %d; it must be from 1 to %d", o.BlockSize, maxBlockSize)
	case o.MaxModelLen < -1:
		return bad("max_model_len", "--max-model-len is %d; it must be positive, or -1 for the largest that fits", o.MaxModelLen)
	case o.NumBlocksOverride < 0 || o.NumBlocksOverride > maxBlocks:
		return bad("num_gpu_blocks_override", "--num-gpu-blocks-override is %d; it must be from 1 to %d", o.NumBlocksOverride, maxBlocks)
	case o.KVCacheMemoryBytes < 0:
		return bad("kv_cache_memory_bytes", "--kv-cache-memory-bytes is %d; it must be positive", o.KVCacheMemoryBytes)
	case o.MaxNumSeqs < 1 || o.MaxNumSeqs > 1<<20:
		return bad("max_num_seqs", "--max-num-seqs is %d; it must be from 1 to %d", o.MaxNumSeqs, 1<<20)
	case o.MaxNumBatchedTokens < 1 || o.MaxNumBatchedTokens > 1<<22:
		return bad("max_num_batched_tokens", "--max-num-batched-tokens is %d; it must be from 1 to %d", o.MaxNumBatchedTokens, 1<<22)
	}
	return nil
}
