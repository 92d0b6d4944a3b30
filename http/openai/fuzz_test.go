package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// seeds are bodies for all endpoints: good ones and every refusal's.
func seeds(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"prompt":"x"}`, `{"prompt":[[1,2],[3]],"n":2,"logprobs":3,"echo":true}`, `{"tokens":[1,2,3]}`,
		chat(`"stream":true,"stream_options":{"include_usage":true},"seed":1,"stop":["a"],"logit_bias":{"1":2}`),
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a\ud83d"}]}],"logprobs":true,"top_logprobs":2}`,
	} {
		f.Add([]byte(body))
	}
	for _, r := range refusals {
		f.Add([]byte(chat(r.fields)))
		f.Add([]byte(completion(r.fields)))
	}
}

// checkError: whatever was sent, the error is ours and short.
func checkError(t *testing.T, err error) {
	var inferErr *infer.Error
	require.ErrorAs(t, err, &inferErr)
	p := openai.FromError(inferErr)
	require.Less(t, p.Status, 502)
	require.NotEqual(t, 500, p.Status)
	require.Less(t, len(inferErr.Message), 1024)
}

func checkCall(t *testing.T, call *openai.Call) {
	s := call.Request.Sampling
	require.GreaterOrEqual(t, call.Request.N, 1)
	require.LessOrEqual(t, call.Reply.NumChoices, 16384)
	require.True(t, s.Temperature >= 0 && s.Temperature <= 2)
	require.True(t, s.TopP > 0 && s.TopP <= 1)
	require.LessOrEqual(t, s.NumLogprobs, 20)
	require.LessOrEqual(t, s.NumPromptLogprobs, 20)
	for _, p := range call.Request.Prompts {
		for _, id := range p.TokenIDs {
			require.True(t, id >= 0 && id < 512)
		}
	}
}

func FuzzChat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := openai.ParseChat(body, profile(), envelope())
		if err != nil {
			checkError(t, err)
			return
		}
		checkCall(t, call)
		require.NotEmpty(t, call.Request.Chat.Messages)
	})
}

func FuzzCompletion(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := openai.ParseCompletion(body, profile(), envelope())
		if err != nil {
			checkError(t, err)
			return
		}
		checkCall(t, call)
		require.NotEmpty(t, call.Request.Prompts)
	})
}

func FuzzTokenize(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := openai.ParseTokenize(body, profile())
		if err != nil {
			checkError(t, err)
		} else {
			require.NotEqual(t, r.Text == nil, r.Chat == nil, "exactly one of text and chat")
		}
		if _, err := openai.ParseDetokenize(body, profile()); err != nil {
			checkError(t, err)
		}
	})
}
