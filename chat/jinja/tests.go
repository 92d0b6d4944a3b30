package jinja

import "strings"

// test applies a test by name. The value is a.pos[0].
func (r *run) test(name string, a args) (bool, error) {
	if err := r.step(); err != nil {
		return false, err
	}
	if t, ok := a.pos[0].(Text); ok {
		if err := r.scan(t); err != nil {
			return false, err
		}
	}
	if is, ok := typeTests[name]; ok {
		return is(a.pos[0]), nil
	}
	switch name {
	case "odd", "even", "divisibleby":
		return r.divides(name, a)
	case "filter", "test":
		t, err := r.toText(a.pos[0])
		if name == "filter" {
			_, ok := filters[t.s]
			return ok, err
		}
		return isTest(t.s), err
	case "sameas":
		if len(a.pos) != 2 {
			break
		}
		same, err := r.equal(a.pos[0], a.pos[1], 0)
		return same && typeName(a.pos[0]) == typeName(a.pos[1]), err
	}
	op, ok := compareTests[name]
	if !ok {
		return false, r.errorf("no test named '%s'", name)
	}
	if len(a.pos) != 2 {
		return false, r.errorf("the test '%s' needs one argument", name)
	}
	return r.compare(op, a.pos[0], a.pos[1])
}

func isTest(name string) bool {
	switch name {
	case "odd", "even", "divisibleby", "filter", "test", "sameas":
		return true
	}
	_, isCompare := compareTests[name]
	return isCompare || typeTests[name] != nil
}

// compareTests are the tests that are operators under another name.
var compareTests = map[string]string{
	"eq": "==", "equalto": "==", "==": "==",
	"ne": "!=", "!=": "!=",
	"lt": "<", "lessthan": "<", "<": "<",
	"le": "<=", "<=": "<=",
	"gt": ">", "greaterthan": ">", ">": ">",
	"ge": ">=", ">=": ">=",
	"in": "in",
}

// typeTests are the tests that look at the value alone.
var typeTests = map[string]func(v Value) bool{
	"defined":   func(v Value) bool { return !isType[Undefined](v) },
	"undefined": isType[Undefined],
	"none":      func(v Value) bool { return v == nil },
	"boolean":   isType[bool],
	"true":      func(v Value) bool { return v == true },
	"false":     func(v Value) bool { return v == false },
	"integer":   func(v Value) bool { return isType[int64](v) || isType[Number](v) },
	"float":     isType[float64],
	"number": func(v Value) bool {
		_, _, _, ok := asNumber(v)
		return ok || isType[Number](v)
	},
	"string":   isType[Text],
	"mapping":  isType[*Dict],
	"sequence": isSequence,
	"iterable": func(v Value) bool { return isSequence(v) || isType[Undefined](v) },
	"callable": func(v Value) bool { return isType[*function](v) || isType[*loop](v) },
	"lower":    func(v Value) bool { return cased(v) && v.(Text).s == strings.ToLower(v.(Text).s) },
	"upper":    func(v Value) bool { return cased(v) && v.(Text).s == strings.ToUpper(v.(Text).s) },
	"escaped":  func(Value) bool { return false },
}

func isType[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

// isSequence is true for what has a length and items: strings and mappings too.
func isSequence(v Value) bool { return isType[*List](v) || isType[*Dict](v) || isType[Text](v) }

// cased reports whether v is a string with letters that have a case.
func cased(v Value) bool {
	t, ok := v.(Text)
	return ok && strings.ToLower(t.s) != strings.ToUpper(t.s)
}

func (r *run) divides(name string, a args) (bool, error) {
	by := Value(int64(2))
	if name == "divisibleby" {
		if len(a.pos) != 2 {
			return false, r.errorf("the test 'divisibleby' needs one argument")
		}
		by = a.pos[1]
	}
	rest, err := r.binary("%", a.pos[0], by)
	if err != nil {
		return false, err
	}
	_, f, _, _ := asNumber(rest)
	return (f == 0) != (name == "odd"), nil
}
