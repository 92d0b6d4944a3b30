package reasoning

import (
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// family is how one kind of model marks its thoughts.
type family struct {
	starts, ends []string
	// implied: output is reasoning from its first byte although it holds no start
	// marker, because the template writes it or the model leaves it out.
	implied bool
	// anywhere: the block may follow some text of the answer, and an end marker without a
	// start is dropped.
	anywhere bool
	// optIn: without Options.Thinking (or a prompt that opens the block) there is none.
	optIn bool
	// callTag starts a tool call that may stand in a block left open, "" if none.
	callTag string
}

var think = family{starts: []string{"<think>"}, ends: []string{"</think>"}}

func thinking(change func(*family)) family {
	f := think
	change(&f)
	return f
}

// families by vLLM's name of the parser; sources are its files in vllm/reasoning.
var families = map[string]family{
	// deepseek_r1_reasoning_parser.py: the start marker may be missing. Also for QwQ-32B.
	"deepseek_r1": thinking(func(f *family) { f.implied = true }),
	// deepseek_v3_reasoning_parser.py: as R1 with thinking, else plain text.
	"deepseek_v3": thinking(func(f *family) { f.implied, f.optIn = true, true }),
	// deepseek_v3_reasoning_parser.py, DeepSeekV3ReasoningWithThinkingParser.
	"holo2": thinking(func(f *family) { f.implied = true }),
	// glm4_moe_reasoning_parser.py: without a start marker all is content.
	"glm45": think,
	// granite_reasoning_parser.py: Granite 3.2, phrases and no tokens; "Here's" was seen
	// in quantized models.
	"granite": {
		starts: []string{"Here is my thought process:", "Here's my thought process:"},
		ends:   []string{"Here is my response:", "Here's my response:"},
	},
	// mistral_reasoning_parser.py: text before [THINK] and a stray [/THINK] are tolerated.
	"mistral": {starts: []string{"[THINK]"}, ends: []string{"[/THINK]"}, anywhere: true},
	// qwen3_reasoning_parser.py: the template of Qwen3.5 writes <think>, that of Qwen3 does
	// not; a call may come before </think>.
	"qwen3": thinking(func(f *family) { f.implied, f.callTag = true, "<tool_call>" }),
	// step3_reasoning_parser.py: everything before </think>.
	"step3": thinking(func(f *family) { f.implied = true }),
	// identity_reasoning_parser.py.
	"none": {},
}

// Names returns the names that [New] knows, sorted.
func Names() []string {
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func lookup(name string) (family, error) {
	f, ok := families[name]
	if !ok {
		return family{}, infer.Errorf(infer.CodeInvalid, "reasoning_parser",
			"reasoning parser %q is not known; known are %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// opening is where the output of a model starts.
type opening int

const (
	openUnknown opening = iota // a start marker decides
	openInside                 // within the block
	openClosed                 // behind it
)

// opening decides from the end of the prompt, then from the switch, then from the family.
func (f family) opening(o Options) opening {
	if len(f.starts) == 0 {
		return openClosed
	}
	tail := strings.TrimRight(o.Prompt, blanks)
	switch {
	case hasSuffix(tail, f.starts):
		return openInside
	case hasSuffix(tail, f.ends):
		return openClosed
	case o.Thinking != nil && !*o.Thinking:
		return openUnknown // a model that thinks all the same says so with a start marker
	case f.optIn && o.Thinking == nil:
		return openClosed
	case f.implied:
		return openInside
	}
	return openUnknown
}

func hasSuffix(s string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(x string) bool { return strings.HasSuffix(s, x) })
}
