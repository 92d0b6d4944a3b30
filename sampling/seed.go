package sampling

// DeriveSeed returns the seed of one choice of a request: choice 0 keeps the
// request's own, the others get different ones.
func DeriveSeed(seed uint64, choice int) uint64 {
	return seed ^ uint64(choice)*0x9e3779b97f4a7c15
}
