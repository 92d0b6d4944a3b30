package sampling

// StopMatcher finds stop strings in text that arrives in pieces.
type StopMatcher struct {
	stops   []string
	include bool
}

// NewStopMatcher returns a matcher of the given non-empty strings. With include
// the matched string is part of the emitted text.
func NewStopMatcher(stops []string, include bool) *StopMatcher {
	return &StopMatcher{stops: stops, include: include}
}

// Push adds text. emit is what can no longer be part of a stop string; ok
// reports a match, and matched names it.
func (m *StopMatcher) Push(text string) (emit string, matched string, ok bool) {
	return text, "", false
}

// Flush returns the text held back.
func (m *StopMatcher) Flush() string { return "" }
