package grammar

import (
	"math/big"
	"strings"
)

// maxMultipleStates bounds the states of multiples: about 20 times multipleOf.
const maxMultipleStates = 8_000

// multiples matches digits that make a multiple of a number. A state is how
// many digits are left and the remainder so far; states are shared.
type multiples struct {
	*meter
	of     *big.Int
	states map[multipleState]*expr
}

type multipleState struct {
	left int
	rest string // the remainder, as far as it matters with that many digits left
}

func newMultiples(of *big.Int, m *meter) *multiples {
	return &multiples{meter: m, of: of, states: map[multipleState]*expr{}}
}

// between matches the digit strings from lo to hi, which are as long, that
// continue remainder rest to a multiple. nil means that there are too many
// states.
func (m *multiples) between(lo, hi string, rest *big.Int) *expr {
	if lo == "" {
		if rest.Sign() == 0 {
			return empty
		}
		return never
	}
	free := strings.Trim(lo, "0") == "" && strings.Trim(hi, "9") == ""
	state := m.state(len(lo), rest)
	if e, ok := m.states[state]; ok && free {
		return e
	}
	m.spend(1_500)
	if len(m.states) > maxMultipleStates {
		return nil
	}
	var alts []*expr
	for d := lo[0]; d <= hi[0]; d++ {
		least, most := strings.Repeat("0", len(lo)-1), strings.Repeat("9", len(hi)-1)
		if d == lo[0] {
			least = lo[1:]
		}
		if d == hi[0] {
			most = hi[1:]
		}
		next := new(big.Int).Mul(rest, big.NewInt(10))
		next.Add(next, big.NewInt(int64(d-'0')))
		tail := m.between(least, most, next.Mod(next, m.of))
		if tail == nil {
			return nil
		}
		alts = append(alts, join(bytesOf(d, d), tail))
	}
	e := alt(alts...)
	if free {
		m.states[state] = e
	}
	return e
}

// state names a state: with n digits left, remainders are alike if they differ
// by what n zeros make a multiple.
func (m *multiples) state(left int, rest *big.Int) multipleState {
	common := new(big.Int).GCD(nil, nil, m.of, pow10(left))
	alike := new(big.Int).Quo(m.of, common)
	return multipleState{left, alike.Mod(rest, alike).String()}
}
