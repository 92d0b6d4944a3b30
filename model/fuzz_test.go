package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
)

func FuzzParseGeneration(f *testing.F) {
	f.Add([]byte(`{"eos_token_id":[2043,2041],"temperature":0.3,"top_k":20,"top_p":0.9}`))
	f.Add([]byte(`{"eos_token_id":5,"min_p":1,"repetition_penalty":1.1,"max_new_tokens":20}`))
	f.Add([]byte(`{"top_p":1e999}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, ids, err := model.ParseGeneration(b, 100)
		if err != nil {
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			return
		}
		for _, id := range ids {
			require.True(t, id >= 0 && id < 100)
		}
		if d.TopP != nil {
			require.True(t, *d.TopP > 0 && *d.TopP <= 1)
		}
		if d.RepetitionPenalty != nil {
			require.Positive(t, *d.RepetitionPenalty)
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../../etc/passwd.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		shards, err := model.ParseIndex(b)
		if err != nil {
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			return
		}
		for name := range shards {
			require.NotContains(t, name, "/")
			require.NotContains(t, name, "\\")
		}
	})
}
