package cpu

// Mapped returns the bytes that b has mapped: for itself, and those of the
// matrices that it shares.
func (b *Backend) Mapped() (own, shared int64) { return b.mem.size(), b.weights.size() }

func (a *arena) size() (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.blocks {
		bytes += int64(len(b))
	}
	return bytes
}
