package ref

import "math"

// Shape is the shape of an attention layer. A qkv row holds NumHeads*HeadDim
// queries, then NumKVHeads*HeadDim keys, then as many values.
type Shape struct {
	NumHeads, NumKVHeads, HeadDim int
	Scale                         float64 // applied to q·k
	SoftCap                       float64 // scores become SoftCap*tanh(score/SoftCap); 0 = they stay
}

// Row returns the length of a qkv row.
func (s Shape) Row() int { return (s.NumHeads + 2*s.NumKVHeads) * s.HeadDim }

// Cache is one layer's keys and values by slot: [slots, NumKVHeads*HeadDim].
type Cache struct{ Keys, Values []float64 }

// NewCache returns a cache in which every value is NaN until stored.
func NewCache(s Shape, slots int) *Cache {
	c := &Cache{
		Keys:   make([]float64, slots*s.NumKVHeads*s.HeadDim),
		Values: make([]float64, slots*s.NumKVHeads*s.HeadDim),
	}
	for i := range c.Keys {
		c.Keys[i], c.Values[i] = math.NaN(), math.NaN()
	}
	return c
}

// Rope rotates the queries and keys of a qkv row in place. cos and sin are the
// row of its position in a table [positions, HeadDim/2]. The pairs are
// (i, i+HeadDim/2) of each head. A shorter row of n rotates the pairs (i, i+n)
// and leaves the rest of each head.
func Rope(row []float64, s Shape, cos, sin []float64) {
	half := len(cos)
	for h := range s.NumHeads + s.NumKVHeads {
		x := row[h*s.HeadDim:][:s.HeadDim]
		for i := range half {
			a, b := x[i], x[i+half]
			x[i] = a*cos[i] - b*sin[i]
			x[i+half] = b*cos[i] + a*sin[i]
		}
	}
}

// Store writes a qkv row's keys and values to a slot.
func (c *Cache) Store(row []float64, s Shape, slot int) {
	n := s.NumKVHeads * s.HeadDim
	keys := row[s.NumHeads*s.HeadDim:]
	copy(c.Keys[slot*n:][:n], keys[:n])
	copy(c.Values[slot*n:][:n], keys[n:2*n])
}

// Attention returns softmax(Scale * q·k) · v for every head of one qkv row
// [NumHeads*HeadDim], over the given slots: those of the positions that it sees,
// the row's own included. Query head h uses key-value head
// h / (NumHeads/NumKVHeads).
func (c *Cache) Attention(row []float64, s Shape, slots []int) []float64 {
	out := make([]float64, s.NumHeads*s.HeadDim)
	for h := range s.NumHeads {
		q := row[h*s.HeadDim:][:s.HeadDim]
		kvHead := h / (s.NumHeads / s.NumKVHeads)
		weights := make([]float64, len(slots))
		largest := math.Inf(-1)
		for i, slot := range slots {
			k := c.Keys[(slot*s.NumKVHeads+kvHead)*s.HeadDim:]
			for d := range q {
				weights[i] += q[d] * k[d]
			}
			weights[i] *= s.Scale
			if s.SoftCap > 0 {
				weights[i] = s.SoftCap * math.Tanh(weights[i]/s.SoftCap)
			}
			largest = max(largest, weights[i])
		}
		sum := 0.0
		for i := range weights {
			weights[i] = math.Exp(weights[i] - largest)
			sum += weights[i]
		}
		for i, slot := range slots {
			v := c.Values[(slot*s.NumKVHeads+kvHead)*s.HeadDim:]
			for d := range q {
				out[h*s.HeadDim+d] += weights[i] / sum * v[d]
			}
		}
	}
	return out
}
