package arch

// Frequencies exposes the rotary frequencies of a context of that many positions.
func Frequencies(r *Rope, positions int) ([]float64, float64) { return r.frequencies(positions) }

// All exposes the list of what is supported.
func All() []*Architecture { return all }
