package model

// Config is the architecture of a decoder, checked.
type Config struct {
	VocabSize int
}
