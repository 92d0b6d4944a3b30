package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Speculation is what --speculative-config says, with what it leaves open filled in.
type Speculation struct {
	Method    string // MethodNgram or MethodDraftModel
	Model     string // of MethodDraftModel: a folder or the name of an embedded model
	NumTokens int    // most draft tokens per step
	// LookupMin and LookupMax are of MethodNgram: how many of the last tokens must
	// stand earlier, at least, and are compared, at most.
	LookupMin, LookupMax int
}

// The methods of speculative decoding, in vLLM's words.
const (
	MethodNgram      = "ngram"
	MethodDraftModel = "draft_model"
)

const (
	maxSpecTokens    = 64 // as many fit into one word of flags; useful are far fewer
	defaultSpecToken = 4
	maxLookup        = 64
	defaultLookupMin = 2
	defaultLookupMax = 5
)

// speculativeJSON is the value of --speculative-config. Members that vLLM has and
// that say nothing here are accepted with the one value that holds.
type speculativeJSON struct {
	Method       *string `json:"method"`
	Model        *string `json:"model"`
	NumTokens    *int    `json:"num_speculative_tokens"`
	LookupMin    *int    `json:"prompt_lookup_min"`
	LookupMax    *int    `json:"prompt_lookup_max"`
	DraftTP      *int    `json:"draft_tensor_parallel_size"`
	MaxModelLen  *int    `json:"max_model_len"`
	Quantization *string `json:"quantization"`
}

// Speculation returns the settings of speculative decoding, nil if it is off. It is
// on if --speculative-config or one of --spec-method, --spec-model and
// --spec-tokens is given.
func (s *Serve) Speculation() (*Speculation, error) {
	given, err := s.speculativeJSON()
	if given == nil || err != nil {
		return nil, err
	}
	sp := &Speculation{NumTokens: defaultSpecToken, LookupMin: defaultLookupMin, LookupMax: defaultLookupMax}
	if given.NumTokens != nil {
		sp.NumTokens = *given.NumTokens
	}
	if given.Model != nil {
		sp.Model = *given.Model
	}
	switch {
	case given.Method != nil:
		sp.Method = *given.Method
	case sp.Model == MethodNgram || sp.Model == "["+MethodNgram+"]":
		sp.Method = MethodNgram
	case sp.Model != "":
		sp.Method = MethodDraftModel
	}
	if err := sp.check(given); err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	return sp, nil
}

// speculativeJSON returns the JSON and the flat form of the setting as one, nil if
// neither is given.
func (s *Serve) speculativeJSON() (*speculativeJSON, error) {
	m := &s.Model
	given := &speculativeJSON{}
	if raw := m.SpeculativeConfig.Raw; len(raw) > 0 && string(raw) != "null" {
		d := json.NewDecoder(bytes.NewReader(m.SpeculativeConfig.Raw))
		d.DisallowUnknownFields()
		if err := d.Decode(given); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("--speculative-config: %w", speculativeJSONError(err))
		}
	} else if m.SpecMethod == "" && m.SpecModel == "" && m.SpecTokens == nil {
		return nil, nil
	}
	for _, flat := range []struct {
		flag, value, member string
		to                  **string
	}{
		{"--spec-method", m.SpecMethod, "method", &given.Method},
		{"--spec-model", m.SpecModel, "model", &given.Model},
	} {
		if flat.value == "" {
			continue
		}
		if *flat.to != nil && **flat.to != flat.value {
			return nil, fmt.Errorf("%s %q and %s %q of --speculative-config differ: give one", flat.flag, flat.value, flat.member, **flat.to)
		}
		*flat.to = &flat.value
	}
	if m.SpecTokens != nil {
		if given.NumTokens != nil && *given.NumTokens != *m.SpecTokens {
			return nil, fmt.Errorf("--spec-tokens %d and num_speculative_tokens %d of --speculative-config differ: give one", *m.SpecTokens, *given.NumTokens)
		}
		given.NumTokens = m.SpecTokens
	}
	return given, nil
}

// speculativeJSONError words a decoder's error without the names of Go types.
func speculativeJSONError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		want := "a string"
		if wrong.Type.Kind().String() == "int" {
			want = "an integer"
		}
		return fmt.Errorf("%s must be %s, got a %s", wrong.Field, want, wrong.Value)
	}
	return err
}

// check fills in what one bound of the look-up says of the other, and returns what
// cannot be.
func (sp *Speculation) check(given *speculativeJSON) error {
	switch {
	case sp.Method == "":
		return fmt.Errorf("method is missing: %s or %s", MethodNgram, MethodDraftModel)
	case !slices.Contains([]string{MethodNgram, MethodDraftModel}, sp.Method):
		return fmt.Errorf("method must be %s or %s, got %q", MethodNgram, MethodDraftModel, sp.Method)
	case sp.NumTokens < 1 || sp.NumTokens > maxSpecTokens:
		return fmt.Errorf("num_speculative_tokens must be from 1 to %d, got %d", maxSpecTokens, sp.NumTokens)
	case sp.Method == MethodDraftModel && sp.Model == "":
		return fmt.Errorf("model is missing: %s needs a draft model", MethodDraftModel)
	case given.DraftTP != nil && *given.DraftTP != 1:
		return fmt.Errorf("draft_tensor_parallel_size must be 1, got %d", *given.DraftTP)
	case given.Quantization != nil:
		return fmt.Errorf("quantization of the draft model is not supported, got %q", *given.Quantization)
	case given.MaxModelLen != nil:
		return fmt.Errorf("max_model_len is that of the served model, got %d", *given.MaxModelLen)
	}
	low, high := given.LookupMin, given.LookupMax
	if sp.Method != MethodNgram {
		if low != nil || high != nil {
			return fmt.Errorf("prompt_lookup_min and prompt_lookup_max are for the method %s", MethodNgram)
		}
		return nil
	}
	switch { // one alone stands for both, as in vLLM
	case low != nil && high != nil:
		sp.LookupMin, sp.LookupMax = *low, *high
	case low != nil:
		sp.LookupMin, sp.LookupMax = *low, *low
	case high != nil:
		sp.LookupMin, sp.LookupMax = *high, *high
	}
	if sp.LookupMin < 1 || sp.LookupMax > maxLookup || sp.LookupMin > sp.LookupMax {
		return fmt.Errorf("prompt_lookup_min and prompt_lookup_max must be from 1 to %d, the first not above the second, got %d and %d",
			maxLookup, sp.LookupMin, sp.LookupMax)
	}
	return nil
}
