package gguf

import "fmt"

// Type is the element type of a tensor, with ggml's numbers.
type Type uint32

// The types that are read. Others are known by name only.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// layout is how a type's elements lie: rows are cut into blocks of elements.
type layout struct {
	name     string
	elements int // per block
	bytes    int // per block
}

// layouts has every type that ggml has published, but for those whose numbers were
// given up.
var layouts = map[Type]layout{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2},
	Q4_0: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176},
	Q6_K: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292},
	16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136},
	24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
}

// String returns ggml's name.
func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Bytes returns how many bytes n elements of whole blocks take; 0 for a type that is
// not known.
func (t Type) Bytes(n int64) int64 {
	l, ok := layouts[t]
	if !ok {
		return 0
	}
	return n / int64(l.elements) * int64(l.bytes)
}

// Kind is the type of a metadata value, with the format's numbers.
type Kind uint32

// The kinds.
const (
	Uint8 Kind = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

var kindNames = [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}

// size returns a value's bytes, 0 if they vary.
func (k Kind) size() int {
	return [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}[k]
}

func (k Kind) known() bool { return int(k) < len(kindNames) }

// String returns the format's name.
func (k Kind) String() string {
	if !k.known() {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kindNames[k]
}
