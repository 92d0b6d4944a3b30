package model

import (
	"errors"

	"github.com/troupe-llm/troupe/compute"
)

// room is what a runner has for itself, beside the weights that all runners of
// the model read: threads, buffers and a KV cache. So one whose step never ends
// holds up no other.
type room struct {
	backend     compute.Backend // a fork of the model's
	kv          compute.KVCache
	activations activations
}

func (m *Model) newRoom() (*room, error) {
	backend, err := m.backend.Fork()
	if err != nil {
		return nil, err
	}
	r, err := m.furnish(backend)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return r, nil
}

// furnish makes the buffers and the cache on a backend that may have others'.
func (m *Model) furnish(backend compute.Backend) (*room, error) {
	r := &room{backend: backend}
	if err := r.makeActivations(&m.config, m.maxTokens); err != nil {
		return nil, err
	}
	var err error
	r.kv, err = backend.NewKVCache(m.sizes.kv)
	return r, err
}

// close gives everything back: the backend frees what it made.
func (r *room) close() error { return r.backend.Close() }

// activations are the buffers of one step, in the order of the computation.
// The first group has a row per token of the step.
type activations struct {
	x      compute.Buffer // [tokens, hidden] the residual stream
	h      compute.Buffer // [tokens, hidden] normalized
	qkv    compute.Buffer // [tokens, (heads + 2 kv_heads) * head_dim]
	attn   compute.Buffer // [tokens, heads * head_dim]
	gateUp compute.Buffer // [tokens, 2 * intermediate]
	act    compute.Buffer // [tokens, intermediate]

	// Logits are computed for some rows only, a bounded number at a time: a
	// prompt's logits over a large vocabulary would not fit into memory.
	selectedX    compute.Buffer // [logits rows, hidden] rows of x
	selectedAttn compute.Buffer // [logits rows, heads * head_dim] rows of attn
	logits       compute.Buffer // [logits rows, vocab]
}

// maxLogitsBytes bounds the logits buffer; 128 rows of a vocabulary of 128k.
const maxLogitsBytes = 64 << 20

// makeActivations allocates the buffers of steps of up to numTokens tokens.
func (r *room) makeActivations(c *Config, numTokens int) error {
	a := &r.activations
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	logitsRows := min(numTokens, max(1, maxLogitsBytes/(4*c.VocabSize)))
	for _, n := range []struct {
		buffer     *compute.Buffer
		rows, cols int
	}{
		{&a.x, numTokens, c.HiddenSize},
		{&a.h, numTokens, c.HiddenSize},
		{&a.qkv, numTokens, q + 2*kv},
		{&a.attn, numTokens, q},
		{&a.gateUp, numTokens, 2 * c.IntermediateSize},
		{&a.act, numTokens, c.IntermediateSize},
		{&a.selectedX, logitsRows, c.HiddenSize},
		{&a.selectedAttn, logitsRows, q},
		{&a.logits, logitsRows, c.VocabSize},
	} {
		var err error
		if *n.buffer, err = r.backend.NewBuffer(n.rows, n.cols); err != nil {
			return err
		}
	}
	return nil
}
