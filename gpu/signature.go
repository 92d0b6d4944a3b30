package gpu

import (
	"fmt"
	"strings"
)

// MaxParams is the most parameters of a kernel that Launch takes.
const MaxParams = 64

// Param is a parameter of a kernel.
type Param struct {
	Name string
	Type string // PTX's: u64, u32, f32, b8, …
	Size int    // bytes: 1, 2, 4 or 8
}

// Entry is the signature of a kernel, as PTX declares it.
type Entry struct {
	Name   string
	Params []Param
}

// Entries reads the signatures of the kernels in PTX. It reads nothing else:
// whether the text is PTX is for a driver to say.
func Entries(ptx string) ([]Entry, error) {
	var all []Entry
	for rest := ptx; ; {
		_, after, found := strings.Cut(rest, ".entry")
		if !found {
			return all, nil
		}
		list, readable := "", false
		end := strings.IndexAny(after, "({")
		if end >= 0 && after[end] == '(' {
			list, _, readable = strings.Cut(after[end+1:], ")")
		} else if end >= 0 {
			readable = true // without parameters
		}
		name := strings.TrimSpace(after[:max(end, 0)])
		if !readable || name == "" || strings.ContainsAny(name, " \t\r\n;") {
			return nil, fmt.Errorf("gpu: kernel %d of the PTX has no readable signature", len(all))
		}
		params, err := readParams(list)
		if err != nil {
			return nil, fmt.Errorf("gpu: kernel %s: %w", name, err)
		}
		all = append(all, Entry{name, params})
		rest = after
	}
}

func readParams(list string) ([]Param, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var params []Param
	for decl := range strings.SplitSeq(list, ",") {
		f := strings.Fields(decl)
		if len(f) < 3 || f[0] != ".param" {
			return nil, fmt.Errorf("parameter %d is not declared as .param .type name", len(params))
		}
		p := Param{Name: f[len(f)-1], Type: strings.TrimPrefix(f[1], ".")}
		p.Size = TypeSize(p.Type)
		if p.Size == 0 || strings.Contains(p.Name, "[") {
			return nil, fmt.Errorf("parameter %s has type %s; only numbers of 1 to 8 bytes are taken", p.Name, p.Type)
		}
		if params = append(params, p); len(params) > MaxParams {
			return nil, fmt.Errorf("more than %d parameters", MaxParams)
		}
	}
	return params, nil
}

// TypeSize returns the bytes of one of PTX's types of numbers, without its dot: u8
// to f64. It is 0 for any other.
func TypeSize(typ string) int {
	if len(typ) < 2 || !strings.Contains("busf", typ[:1]) {
		return 0
	}
	switch typ[1:] {
	case "8":
		return 1
	case "16":
		return 2
	case "32":
		return 4
	case "64":
		return 8
	}
	return 0
}
