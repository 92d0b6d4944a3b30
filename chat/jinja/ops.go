package jinja

import (
	"cmp"
	"math"
	"strings"
)

// asNumber returns v as an integer, or as a float if that is what it is.
func asNumber(v Value) (i int64, f float64, isFloat, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, false, true
		}
		return 0, 0, false, true
	case int64:
		return v, float64(v), false, true
	case float64:
		return 0, v, true, true
	}
	return 0, 0, false, false
}

// sign is unary + and -.
func (r *run) sign(op string, v Value) (Value, error) {
	if u, ok := v.(Undefined); ok {
		return nil, r.undefined(u)
	}
	i, f, isFloat, ok := asNumber(v)
	switch {
	case !ok:
		return nil, r.errorf("bad operand type for unary %s: '%s'", op, typeName(v))
	case op == "-" && isFloat:
		return -f, nil
	case op == "-" && i == math.MinInt64:
		return nil, r.errorf("integer out of range")
	case op == "-":
		return -i, nil
	case isFloat:
		return f, nil
	}
	return i, nil
}

// binary is the arithmetic of two values.
func (r *run) binary(op string, a, b Value) (Value, error) {
	for _, v := range []Value{a, b} {
		if u, ok := v.(Undefined); ok {
			return nil, r.undefined(u)
		}
	}
	ai, af, aFloat, aOK := asNumber(a)
	bi, bf, bFloat, bOK := asNumber(b)
	switch {
	case aOK && bOK && (aFloat || bFloat || op == "/"):
		return r.floats(op, af, bf)
	case aOK && bOK:
		return r.integers(op, ai, bi)
	case op == "*" && bOK && !bFloat:
		return r.repeat(a, bi)
	case op == "*" && aOK && !aFloat:
		return r.repeat(b, ai)
	}
	switch x := a.(type) {
	case Text:
		if y, ok := b.(Text); ok && op == "+" {
			out := r.builder()
			out.s.Grow(min(len(x.s)+len(y.s), r.lim.MaxOutput))
			out.text(x)
			out.text(y)
			return out.value()
		}
		if op == "%" {
			return r.percent(x, b)
		}
	case *List:
		if y, ok := b.(*List); ok && op == "+" && x.tuple == y.tuple {
			if err := r.elements(len(x.Items) + len(y.Items)); err != nil {
				return nil, err
			}
			items := make([]Value, 0, len(x.Items)+len(y.Items))
			return &List{Items: append(append(items, x.Items...), y.Items...), tuple: x.tuple}, nil
		}
	}
	return nil, r.errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

// repeat is a text or list times n.
func (r *run) repeat(v Value, n int64) (Value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case Text:
		if len(v.s) == 0 {
			return v, nil
		}
		if n > int64(r.lim.MaxOutput/len(v.s)) {
			return nil, r.tooLong()
		}
		b := r.builder()
		if len(v.marks) == 0 {
			b.plain(strings.Repeat(v.s, int(n)))
			return b.value()
		}
		for range n {
			b.text(v)
		}
		return b.value()
	case *List:
		if len(v.Items) == 0 {
			n = 0
		}
		if n > int64(r.lim.MaxSteps) {
			n = int64(r.lim.MaxSteps) // more than enough for elements to refuse
		}
		if err := r.elements(len(v.Items) * int(n)); err != nil {
			return nil, err
		}
		out := &List{tuple: v.tuple}
		for range n {
			out.Items = append(out.Items, v.Items...)
		}
		return out, nil
	}
	return nil, r.errorf("can't multiply '%s' by 'int'", typeName(v))
}

func (r *run) floats(op string, a, b float64) (Value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		if v := math.Pow(a, b); !math.IsNaN(v) || math.IsNaN(a) || math.IsNaN(b) {
			return v, nil
		}
		return nil, r.errorf("a negative number cannot be raised to a fractional power")
	}
	if b == 0 {
		return nil, r.errorf("division by zero")
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
}

func (r *run) integers(op string, a, b int64) (Value, error) {
	v, ok := int64(0), true
	switch op {
	case "+":
		v = a + b
		ok = (v > a) == (b > 0)
	case "-":
		v = a - b
		ok = (v < a) == (b > 0)
	case "*":
		v, ok = mul(a, b)
	case "**":
		if b < 0 {
			return r.floats(op, float64(a), float64(b))
		}
		v, ok = pow(a, b)
	default:
		if b == 0 {
			return nil, r.errorf("integer division or modulo by zero")
		}
		if a == math.MinInt64 && b == -1 {
			ok = op == "%"
			break
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) { // Python rounds towards -inf
			quotient--
			rest += b
		}
		if v = quotient; op == "%" {
			v = rest
		}
	}
	if !ok {
		return nil, r.errorf("integer out of range")
	}
	return v, nil
}

func mul(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	v := a * b
	return v, v/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
}

func pow(a, n int64) (int64, bool) {
	v, ok := int64(1), true
	if a == 1 || a == -1 {
		n %= 2
	}
	for ; n > 0 && ok && v != 0; n-- { // overflows after at most 63 rounds
		v, ok = mul(v, a)
	}
	return v, ok
}

// equal is ==. depth is the nesting so far.
func (r *run) equal(a, b Value, depth int) (bool, error) {
	if depth > maxNesting {
		return false, r.errorf("values nest deeper than %d levels", maxNesting)
	}
	if err := r.step(); err != nil {
		return false, err
	}
	ai, af, aFloat, aOK := asNumber(a)
	bi, bf, bFloat, bOK := asNumber(b)
	if aOK && bOK {
		if !aFloat && !bFloat {
			return ai == bi, nil
		}
		return af == bf, nil
	}
	switch x := a.(type) {
	case Text:
		y, ok := b.(Text)
		return ok && x.s == y.s, r.scan(x)
	case Undefined:
		_, ok := b.(Undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok || x.tuple != y.tuple || len(x.Items) != len(y.Items) {
			return false, nil
		}
		for i := range x.Items {
			if same, err := r.equal(x.Items[i], y.Items[i], depth+1); !same {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false, nil
		}
		return r.equalDicts(x, y, depth)
	}
	return a == b, nil
}

func (r *run) equalDicts(x, y *Dict, depth int) (bool, error) {
	for i, k := range x.keys {
		id, _ := keyOf(k)
		j := y.find(id)
		if j < 0 {
			return false, nil
		}
		if same, err := r.equal(x.vals[i], y.vals[j], depth+1); !same {
			return false, err
		}
	}
	return true, nil
}

// compare is one comparison operator.
func (r *run) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		same, err := r.equal(a, b, 0)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "not in":
		found, err := r.contains(b, a)
		return !found, err
	}
	n, ordered, err := r.order(op, a, b, 0)
	if err != nil || !ordered {
		return false, err
	}
	switch op {
	case "<":
		return n < 0, nil
	case "<=":
		return n <= 0, nil
	case ">":
		return n > 0, nil
	}
	return n >= 0, nil
}

// order returns how a and b compare; ordered is false if one is NaN.
func (r *run) order(op string, a, b Value, depth int) (n int, ordered bool, err error) {
	if err := r.step(); err != nil {
		return 0, false, err
	}
	ai, af, aFloat, aOK := asNumber(a)
	bi, bf, bFloat, bOK := asNumber(b)
	switch {
	case aOK && bOK && !aFloat && !bFloat:
		return cmp.Compare(ai, bi), true, nil
	case aOK && bOK:
		return cmp.Compare(af, bf), af == af && bf == bf, nil
	}
	switch x := a.(type) {
	case Text:
		if y, ok := b.(Text); ok {
			return strings.Compare(x.s, y.s), true, r.scan(x)
		}
	case *List:
		y, ok := b.(*List)
		if !ok || x.tuple != y.tuple || depth > maxNesting {
			break
		}
		for i := range min(len(x.Items), len(y.Items)) {
			same, err := r.equal(x.Items[i], y.Items[i], depth+1)
			if err != nil {
				return 0, false, err
			}
			if !same {
				return r.order(op, x.Items[i], y.Items[i], depth+1)
			}
		}
		return len(x.Items) - len(y.Items), true, nil
	case Undefined:
		return 0, false, r.undefined(x)
	}
	if u, ok := b.(Undefined); ok {
		return 0, false, r.undefined(u)
	}
	return 0, false, r.errorf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}

// contains is "v in box".
func (r *run) contains(box, v Value) (bool, error) {
	switch box := box.(type) {
	case Text:
		t, ok := v.(Text)
		if !ok {
			return false, r.errorf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(box.s, t.s), r.scan(box)
	case *Dict:
		k, ok := keyOf(v)
		return ok && box.find(k) >= 0, nil
	case *List:
		for _, item := range box.Items {
			if same, err := r.equal(item, v, 0); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case Undefined:
		return false, nil
	}
	return false, r.errorf("argument of type '%s' is not iterable", typeName(box))
}
