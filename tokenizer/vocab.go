package tokenizer

import (
	"hash/maphash"
	"strings"
	"unicode/utf8"
)

// arena keeps the strings of all ids in one allocation: a vocabulary of 260,000
// tokens would otherwise give the garbage collector as many pointers to follow.
type arena struct {
	data string
	ends []uint32 // ends[id] .. ends[id+1] is the range of id
}

// at returns the string of id, "" for an id that does not exist.
func (a *arena) at(id int32) string {
	if id < 0 || int(id)+1 >= len(a.ends) {
		return ""
	}
	return a.data[a.ends[id]:a.ends[id+1]]
}

// newArena stores the string of every id below n.
func newArena(n int, at func(id int32) string) arena {
	var b strings.Builder
	ends := make([]uint32, n+1)
	for id := range n {
		b.WriteString(at(int32(id)))
		ends[id+1] = uint32(b.Len())
	}
	return arena{data: b.String(), ends: ends}
}

// index finds ids by string: open addressing over ids, the strings stay in
// their arena. It is read-only once built.
type index struct {
	seed  maphash.Seed
	slots []int32 // id + 1, 0 = free; the length is a power of two, at most half full
	count int
	texts *arena
}

func newIndex(texts *arena, n int) *index {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &index{seed: maphash.MakeSeed(), slots: make([]int32, size), texts: texts}
}

// find returns the id of s, or -1. It does not allocate.
func (x *index) find(s string) int32 {
	for i := maphash.String(x.seed, s); ; i++ {
		id := x.slots[i&uint64(len(x.slots)-1)] - 1
		if id < 0 || x.texts.at(id) == s {
			return id
		}
	}
}

// add stores id under its own string; it returns the id that had it before, or -1.
func (x *index) add(id int32) int32 {
	s := x.texts.at(id)
	for i := maphash.String(x.seed, s); ; i++ {
		slot := &x.slots[i&uint64(len(x.slots)-1)]
		if *slot == 0 {
			*slot = id + 1
			x.count++
			return -1
		}
		if x.texts.at(*slot-1) == s {
			return *slot - 1
		}
	}
}

// byteAlphabet is GPT-2's way of writing bytes as printable characters: byte b
// is written as runeOf[b].
type byteAlphabet struct {
	runeOf [256]rune
	byteOf [324]int16 // by rune, -1 = not a letter of the alphabet
}

var alphabet = newByteAlphabet()

func newByteAlphabet() *byteAlphabet {
	a := &byteAlphabet{}
	for i := range a.byteOf {
		a.byteOf[i] = -1
	}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		a.runeOf[b] = r
		a.byteOf[r] = int16(b)
	}
	return a
}

// raw returns the bytes that s spells, ok = false if s has a character outside
// the alphabet.
func (a *byteAlphabet) raw(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if int(r) >= len(a.byteOf) || a.byteOf[r] < 0 {
			return "", false
		}
		out = append(out, byte(a.byteOf[r]))
	}
	return string(out), true
}

// spell appends the alphabet's form of the bytes of s.
func (a *byteAlphabet) spell(out []byte, s string) []byte {
	for i := range len(s) {
		out = utf8.AppendRune(out, a.runeOf[s[i]])
	}
	return out
}
