package understudy

import (
	_ "embed" // the model files

	"github.com/troupe-llm/troupe/model"
)

// Name is the name under which the model is served.
const Name = "understudy"

// ToolCallParser is the format of the model's calls, of those of chat/toolcall.
const ToolCallParser = "hermes"

// DraftName is the name of the draft model.
const DraftName = "understudy-draft"

//go:embed understudy/model.safetensors
var weights string

//go:embed understudy/config.json
var config string

//go:embed understudy/generation_config.json
var generationConfig string

//go:embed understudy/tokenizer.json
var tokenizer string

//go:embed understudy/tokenizer_config.json
var tokenizerConfig string

//go:embed understudy-draft/model.safetensors
var draftWeights string

//go:embed understudy-draft/config.json
var draftConfig string

// Embedded returns the built-in model.
func Embedded() *model.Folder { return folder(Name, config, weights) }

// EmbeddedDraft returns the draft model. It shares the tokenizer and the
// generation config with the built-in model.
func EmbeddedDraft() *model.Folder { return folder(DraftName, draftConfig, draftWeights) }

func folder(name, config, weights string) *model.Folder {
	return model.Embedded(name, map[string]string{
		"config.json":            config,
		"generation_config.json": generationConfig,
		"model.safetensors":      weights,
		"tokenizer.json":         tokenizer,
		"tokenizer_config.json":  tokenizerConfig,
	})
}
