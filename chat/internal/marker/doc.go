// Package marker finds fixed strings in text that comes in pieces, and holds back
// only what can still become one of them.
//
// It works byte by byte, so what it finds depends on the text alone and never on how
// the text was cut.
package marker
