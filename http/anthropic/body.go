package anthropic

import (
	"encoding/json"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// Body gathers the deltas of a request that is answered with one message.
type Body struct {
	*answer
	ending ending
	blocks []block
}

// block is a content block so far.
type block struct {
	kind     blockKind
	id, name string // of a call
	text     []byte // of a call: its arguments
	isOver   bool   // nothing is added to it
}

// Add implements openai.BodyWriter.
func (b *Body) Add(d *infer.Delta) {
	b.ending.see(d)
	if d.Parsed == nil {
		b.add(textBlock, d.Text)
		return
	}
	for i := range d.Parsed.Pieces {
		p := &d.Parsed.Pieces[i]
		switch p.Kind {
		case infer.PieceCall:
			b.blocks = append(b.blocks, block{kind: callBlock, id: callID(p.ID), name: p.Name})
		case infer.PieceCallEnd:
			b.blocks[len(b.blocks)-1].isOver = true
		default:
			b.add(kindOf(p), p.Text)
		}
	}
}

// add puts text into the last block if that is of its kind, else into a new one.
func (b *Body) add(kind blockKind, text string) {
	if text == "" || kind == thinkingBlock && b.shown == dropThoughts {
		return
	}
	last := len(b.blocks) - 1
	if last < 0 || b.blocks[last].kind != kind || b.blocks[last].isOver {
		b.blocks = append(b.blocks, block{kind: kind})
		last++
	}
	if kind == thinkingBlock && b.shown == markThoughts {
		return
	}
	b.blocks[last].text = append(b.blocks[last].text, text...)
}

// AppendBody implements openai.BodyWriter.
func (b *Body) AppendBody(dst []byte, f *infer.Final) []byte {
	dst = b.appendHead(dst)
	for i := range b.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = b.appendBlock(dst, &b.blocks[i])
	}
	dst = b.ending.appendReason(append(dst, "],"...))
	dst = b.appendUsage(append(dst, `,"stop_details":null,"container":null,"usage":`...), f.Usage)
	return append(b.reply.AppendMetricsField(dst, f.Metrics), '}')
}

func (b *Body) appendBlock(dst []byte, block *block) []byte {
	switch block.kind {
	case thinkingBlock:
		dst = openai.AppendString(append(dst, `{"type":"thinking","thinking":`...), block.text)
		dst = openai.AppendString(append(dst, `,"signature":`...), b.signature)
		return append(dst, '}')
	case callBlock:
		return append(append(appendCall(dst, block.id, block.name), inputOf(block.text)...), callEnd...)
	}
	dst = openai.AppendString(append(dst, `{"type":"text","text":`...), block.text)
	return append(dst, `,"citations":null}`...)
}

// inputOf returns the arguments of a call. Of one that was cut nothing can be shown
// here: a client that wants the beginning reads the stream.
func inputOf(arguments []byte) []byte {
	if !json.Valid(arguments) {
		return []byte("{}")
	}
	return arguments
}

// appendCall appends the block of a call up to its input, which callEnd follows.
func appendCall(dst []byte, id, name string) []byte {
	dst = openai.AppendString(append(dst, `{"type":"tool_use","id":`...), id)
	dst = openai.AppendString(append(dst, `,"name":`...), name)
	return append(dst, `,"input":`...)
}

const callEnd = `,"caller":{"type":"direct"}}`
