package grammar

import (
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// Frame is fixed text around JSON values, as models write calls of tools:
//
//	Begin value (Separator value)* End
//
// or an answer instead, if that may come. Any line feed of the fixed text may be left out: models differ in that.
type Frame struct {
	Begin, Separator, End string
	Values                []FramedValue // the alternatives for each value, at least one
	Max                   int           // most values, 0 = no limit; at least one comes
	Answer                *FramedValue  // nil = there is none
}

// FramedValue is Prefix, a JSON value that Schema allows, Suffix. Each schema stands
// alone: a "#" in it is its own root.
type FramedValue struct {
	Prefix, Suffix string
	Schema         []byte
	Param, Path    string // as in [Options], for errors; no Param = those of the options
}

// CompileFrame allows the texts of a frame.
func CompileFrame(f Frame, o Options) (*Grammar, error) {
	return compile(o, func(b *builder) (*Grammar, error) { return b.compileFrame(&f) })
}

func (b *builder) compileFrame(f *Frame) (*Grammar, error) {
	var values []*expr
	for i := range f.Values {
		v, err := f.Values[i].compile(b)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, b.opts.invalid("", "there is no value to choose")
	}
	value, most := alt(values...), f.Max-1
	text := cat(fixed(f.Begin), value, repeat(cat(fixed(f.Separator), value), 0, most), fixed(f.End))
	if f.Answer != nil {
		answer, err := f.Answer.compile(b)
		if err != nil {
			return nil, err
		}
		text = alt(text, answer)
	} else if only := f.Values[0]; len(f.Values) == 1 && only.Param != "" {
		b.opts.Param, b.opts.Path = only.Param, only.Path // what is wrong with the whole is wrong with that
	}
	return b.compileRule(text)
}

func (v *FramedValue) compile(b *builder) (*expr, *infer.Error) {
	own := b.opts
	if v.Param != "" {
		b.opts.Param, b.opts.Path = v.Param, v.Path
	}
	defer func() { b.opts = own }()
	e, err := b.schemaExpr(v.Schema)
	if err != nil {
		return nil, err
	}
	return cat(fixed(v.Prefix), e, fixed(v.Suffix)), nil
}

// fixed matches a text with or without its line feeds.
func fixed(text string) *expr {
	lines := strings.Split(text, "\n")
	parts := []*expr{lit(lines[0])}
	for _, line := range lines[1:] {
		parts = append(parts, maybe(lit("\n")), lit(line))
	}
	return cat(parts...)
}
