package model

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/jsonfields"
)

const generationFile = "generation_config.json"

// generation is what generation_config.json gives.
type generation struct {
	defaults    infer.SamplingDefaults
	eosTokenIDs []int32 // nil = not given
}

// parseGeneration reads a generation config for a vocabulary of vocabSize.
// Members that do not concern sampling are ignored, as vLLM does.
func parseGeneration(file string, b []byte, vocabSize int) (generation, error) {
	f := parseFields(file, b)
	if f.Err() != nil {
		return generation{}, f.Err()
	}
	g := generation{eosTokenIDs: f.TokenIDs("eos_token_id", vocabSize)}
	optionalFloat := func(name string, r jsonfields.FloatRange) *float64 {
		if !f.Has(name) {
			return nil
		}
		v := f.Float(name, r, 0)
		return &v
	}
	optionalInt := func(name string, r jsonfields.IntRange) *int {
		if !f.Has(name) {
			return nil
		}
		v := f.Int(name, r, 0)
		return &v
	}
	g.defaults = infer.SamplingDefaults{
		Temperature:       optionalFloat("temperature", jsonfields.FloatRange{Min: 0, Max: 100}),
		TopP:              optionalFloat("top_p", jsonfields.FloatRange{Min: 0, Max: 1, MinOpen: true}),
		MinP:              optionalFloat("min_p", jsonfields.FloatRange{Min: 0, Max: 1}),
		RepetitionPenalty: optionalFloat("repetition_penalty", jsonfields.FloatRange{Min: 0, Max: 100, MinOpen: true}),
		TopK:              optionalInt("top_k", jsonfields.IntRange{Min: -1, Max: math.MaxInt32}),
		MaxNewTokens:      optionalInt("max_new_tokens", jsonfields.IntRange{Min: 1, Max: math.MaxInt32}),
	}
	if f.Err() != nil {
		return generation{}, f.Err()
	}
	return g, nil
}

// loadGeneration follows Options.GenerationConfig. The end-of-sequence ids of
// the folder's own file hold whatever the option says: it is about sampling.
func loadGeneration(f *Folder, option string, c *Config) (generation, error) {
	var g generation
	b, err := f.File(generationFile)
	switch {
	case err == nil:
		if g, err = parseGeneration(generationFile, b, c.VocabSize); err != nil {
			return generation{}, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return generation{}, unreadable(f, generationFile, err)
	}
	if g.eosTokenIDs == nil {
		g.eosTokenIDs = c.EOSTokenIDs
	}
	switch option {
	case "", "auto":
		return g, nil
	case "vllm":
		g.defaults = infer.SamplingDefaults{}
		return g, nil
	}
	other, err := readGeneration(option, c.VocabSize)
	if err != nil {
		return generation{}, err
	}
	if other.eosTokenIDs == nil {
		other.eosTokenIDs = g.eosTokenIDs
	}
	return other, nil
}

// readGeneration reads a config that the user names: a folder or the file itself.
func readGeneration(path string, vocabSize int) (generation, error) {
	if !strings.HasSuffix(path, ".json") {
		path = filepath.Join(path, generationFile)
	}
	b, err := readBounded(path)
	if err != nil {
		return generation{}, &infer.Error{Code: infer.CodeInvalid, Param: "generation_config",
			Message: fmt.Sprintf("--generation-config is not auto, vllm or a readable folder with a %s: %v", generationFile, err), Err: err}
	}
	return parseGeneration(path, b, vocabSize)
}

// unreadable reports a file of the folder that is there but cannot be read, or
// is needed and missing.
func unreadable(f *Folder, name string, err error) error {
	var coded *infer.Error
	if errors.As(err, &coded) {
		return err
	}
	message := fmt.Sprintf("%s: %s cannot be read: %v", f.Name(), name, err)
	if errors.Is(err, os.ErrNotExist) {
		message = fmt.Sprintf("%s: there is no %s; a model folder in the Hugging Face layout is needed", f.Name(), name)
	}
	return &infer.Error{Code: infer.CodeInvalid, Param: name, Message: message, Err: err}
}
