package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

const (
	maxListedStrings  = 1024 // bad_words
	maxListedTokenIDs = 1024 // stop_token_ids: each is compared with every token drawn
	maxStringBytes    = 4096 // one stop string or bad word: bounds what a stream holds back
	maxExtraArgs      = 64   // vllm_xargs
)

// stringList reads a list of non-empty strings; one string alone counts as a
// list of one. max bounds the list's length.
func (o *object) stringList(name string, max int) []string {
	raw := o.raw(name)
	if raw == nil {
		return nil
	}
	if kind(raw) == "a string" {
		return o.appendString(nil, name, raw)
	}
	if kind(raw) != "an array" {
		o.mismatch(name, "a string or a list of strings", raw)
		return nil
	}
	var list []string
	for i, element := range elements(raw) {
		if i == max {
			o.fail(infer.CodeInvalid, name, "has more than %d entries", max)
			return nil
		}
		if kind(element) != "a string" {
			o.mismatch(fmt.Sprintf("%s[%d]", name, i), "a string", element)
			return nil
		}
		if list = o.appendString(list, name, element); o.err != nil {
			return nil
		}
	}
	return list
}

func (o *object) appendString(list []string, name string, raw []byte) []string {
	s := unquote(raw)
	if s == "" {
		o.fail(infer.CodeInvalid, name, "must not contain an empty string")
		return nil
	}
	if len(s) > maxStringBytes {
		o.fail(infer.CodeInvalid, name, "has an entry of %d bytes, the limit is %d", len(s), maxStringBytes)
		return nil
	}
	return append(list, s)
}

// tokenIDList reads a list of ids of a vocabulary. nil if the field is missing;
// an empty list is not nil.
func (o *object) tokenIDList(name string, vocabSize, max int) []int32 {
	raw := o.typed(name, "an array")
	if raw == nil {
		return nil
	}
	return o.tokenIDs(name, raw, idLimits{vocabSize: vocabSize, max: max})
}

type idLimits struct {
	vocabSize int
	max       int // entries; 0 = no limit of its own
	enough    int // entries after which the rest is not looked at; 0 = none is left out
}

func (o *object) tokenIDs(name string, raw json.RawMessage, limits idLimits) []int32 {
	ids := []int32{}
	for i, element := range elements(raw) {
		if limits.enough > 0 && i == limits.enough {
			break
		}
		if limits.max > 0 && i == limits.max {
			o.fail(infer.CodeInvalid, name, "has more than %d entries", limits.max)
			return nil
		}
		id, ok := parseInteger(element)
		if !ok {
			o.mismatch(fmt.Sprintf("%s[%d]", name, i), "a token id (an integer)", element)
			return nil
		}
		if !within(id, 0, int64(limits.vocabSize)-1) {
			o.fail(infer.CodeInvalid, name, "token id %s is outside the vocabulary: ids are 0 to %d", excerpt(string(element)), limits.vocabSize-1)
			return nil
		}
		ids = append(ids, int32(id.value))
	}
	return ids
}

// logitBias reads a map of token ids to biases, clamped to [-100, 100], sorted by id.
func (o *object) logitBias(name string, vocabSize int) []infer.TokenBias {
	raw := o.typed(name, "an object")
	if raw == nil {
		return nil
	}
	byID := make(map[int32]float32)
	for key, value := range members(raw) {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			o.fail(infer.CodeInvalid, name, "key %q is not a token id", excerpt(key))
			return nil
		}
		if id < 0 || id >= int64(vocabSize) {
			o.fail(infer.CodeInvalid, name, "token id %d is outside the vocabulary: ids are 0 to %d", id, vocabSize-1)
			return nil
		}
		bias, err := strconv.ParseFloat(string(value), 64)
		if err != nil || kind(value) != "a number" {
			o.mismatch(fmt.Sprintf("%s[%q]", name, excerpt(key)), "a finite number", value)
			return nil
		}
		byID[int32(id)] = float32(min(max(bias, -100), 100))
	}
	biases := make([]infer.TokenBias, 0, len(byID))
	for id, bias := range byID {
		biases = append(biases, infer.TokenBias{TokenID: id, Bias: bias})
	}
	slices.SortFunc(biases, func(a, b infer.TokenBias) int { return int(a.TokenID) - int(b.TokenID) })
	return biases
}

// extraArgs reads a map of names to JSON scalars, kept as they were sent.
func (o *object) extraArgs(name string) map[string]string {
	raw := o.typed(name, "an object")
	if raw == nil {
		return nil
	}
	args := make(map[string]string)
	for key, value := range members(raw) {
		if k := kind(value); k == "an object" || k == "an array" {
			o.fail(infer.CodeMalformed, name, "%q must be a string, a number, a boolean or null", excerpt(key))
			return nil
		}
		if len(args) == maxExtraArgs {
			o.fail(infer.CodeInvalid, name, "has more than %d entries", maxExtraArgs)
			return nil
		}
		args[key] = string(value)
	}
	return args
}
