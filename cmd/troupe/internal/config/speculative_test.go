package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

func TestSpeculation(t *testing.T) {
	ngram := config.Speculation{Method: "ngram", NumTokens: 4, LookupMin: 2, LookupMax: 5}
	draft := config.Speculation{Method: "draft_model", Model: "understudy-draft", NumTokens: 3, LookupMin: 2, LookupMax: 5}
	three := ngram
	three.NumTokens, three.LookupMin, three.LookupMax = 3, 1, 3
	one := ngram
	one.LookupMin, one.LookupMax = 4, 4
	for _, c := range []struct {
		args []string
		want *config.Speculation
	}{
		{nil, nil},
		{[]string{"--speculative-config", "null"}, nil},
		{[]string{"--speculative-config", `{"method":"ngram"}`}, &ngram},
		{[]string{"--speculative-config", `{"model":"[ngram]"}`}, &config.Speculation{Method: "ngram", Model: "[ngram]", NumTokens: 4, LookupMin: 2, LookupMax: 5}},
		{[]string{"--speculative-config", `{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":1,"prompt_lookup_max":3}`}, &three},
		{[]string{"--speculative-config.method", "ngram", "--speculative-config.prompt_lookup_max", "4"}, &one},
		{[]string{"--spec-method", "ngram"}, &ngram},
		{[]string{"--spec-model", "understudy-draft", "--spec-tokens", "3"}, &draft},
		{[]string{"--speculative-config", `{"method":"draft_model","model":"understudy-draft","num_speculative_tokens":3,"draft_tensor_parallel_size":1}`}, &draft},
	} {
		got, err := parseServe(t, c.args...).Speculation()
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, got, c.args)
	}
}

func TestSpeculationRefused(t *testing.T) {
	for value, want := range map[string]string{
		`{}`:                           "method is missing",
		`{"num_speculative_tokens":3}`: "method is missing",
		`{"method":"eagle"}`:           `method must be ngram or draft_model, got "eagle"`,
		`{"method":"ngram","num_speculative_tokens":0}`:   "num_speculative_tokens must be from 1 to 64, got 0",
		`{"method":"ngram","num_speculative_tokens":65}`:  "got 65",
		`{"method":"ngram","num_speculative_tokens":"3"}`: "num_speculative_tokens must be an integer, got a string",
		`{"method":3}`:             "method must be a string, got a number",
		`{"method":"draft_model"}`: "model is missing",
		`{"method":"ngram","prompt_lookup_min":4,"prompt_lookup_max":3}`:      "got 4 and 3",
		`{"method":"ngram","prompt_lookup_min":0,"prompt_lookup_max":3}`:      "got 0 and 3",
		`{"method":"draft_model","model":"x","prompt_lookup_min":1}`:          "are for the method ngram",
		`{"method":"draft_model","model":"x","draft_tensor_parallel_size":2}`: "must be 1, got 2",
		`{"method":"draft_model","model":"x","quantization":"fp8"}`:           "quantization",
		`{"method":"draft_model","model":"x","max_model_len":5}`:              "max_model_len",
		`{"method":"ngram","colour":"red"}`:                                   "colour",
	} {
		_, err := parseServe(t, "--speculative-config", value).Speculation()
		require.ErrorContains(t, err, want, value)
		require.ErrorContains(t, err, "--speculative-config", value)
	}
	_, err := parseServe(t, "--speculative-config", `{"method":"ngram"}`, "--spec-method", "draft_model").Speculation()
	require.ErrorContains(t, err, "--spec-method")
	_, err = parseServe(t, "--speculative-config", `{"method":"ngram","num_speculative_tokens":2}`, "--spec-tokens", "3").Speculation()
	require.ErrorContains(t, err, "--spec-tokens 3")
}
