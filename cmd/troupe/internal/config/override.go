package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// SamplingDefaults puts --override-generation-config over the model's own values.
func (s *Serve) SamplingDefaults(d infer.SamplingDefaults) (infer.SamplingDefaults, error) {
	if s.Model.OverrideGenerationConfig.IsEmpty() {
		return d, nil
	}
	var o struct {
		Temperature       *float64 `json:"temperature"`
		TopP              *float64 `json:"top_p"`
		MinP              *float64 `json:"min_p"`
		RepetitionPenalty *float64 `json:"repetition_penalty"`
		TopK              *int     `json:"top_k"`
		MaxNewTokens      *int     `json:"max_new_tokens"`
	}
	decoder := json.NewDecoder(bytes.NewReader(s.Model.OverrideGenerationConfig.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return d, fmt.Errorf("--override-generation-config: %w", jsonError(err))
	}
	for _, r := range []struct {
		name      string
		value     *float64
		low, high float64
		openLow   bool
	}{
		{"temperature", o.Temperature, 0, 100, false},
		{"top_p", o.TopP, 0, 1, true},
		{"min_p", o.MinP, 0, 1, false},
		{"repetition_penalty", o.RepetitionPenalty, 0, 100, true},
		{"top_k", asFloat(o.TopK), -1, math.MaxInt32, false},
		{"max_new_tokens", asFloat(o.MaxNewTokens), 1, math.MaxInt32, false},
	} {
		if v := r.value; v != nil && (*v < r.low || *v > r.high || r.openLow && *v == r.low) {
			return d, fmt.Errorf("--override-generation-config: %s must be from %g to %g, got %g", r.name, r.low, r.high, *v)
		}
	}
	override(&d.Temperature, o.Temperature)
	override(&d.TopP, o.TopP)
	override(&d.MinP, o.MinP)
	override(&d.RepetitionPenalty, o.RepetitionPenalty)
	override(&d.TopK, o.TopK)
	override(&d.MaxNewTokens, o.MaxNewTokens)
	return d, nil
}

func asFloat(n *int) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

func override[T any](value **T, given *T) {
	if given != nil {
		*value = given
	}
}
