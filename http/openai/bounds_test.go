package openai_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What cannot be used is not kept: a body costs a small multiple of its size.
func TestWhatCannotBeUsedIsNotParsed(t *testing.T) {
	p := profile()
	ids := "[" + strings.Repeat("1,", 3_000_000) + "1]"
	prompts := `{"prompt":[` + ids + `,[1]]}`
	var call *openai.Call
	var err error
	require.Less(t, allocated(func() { call, err = openai.ParseCompletion([]byte(prompts), p, openai.Envelope{NewID: "x"}) }), uint64(3*len(prompts)))
	require.NoError(t, err, "the engine says that it is too long")
	require.Len(t, call.Request.Prompts, 1)
	require.Len(t, call.Request.Prompts[0].TokenIDs, p.Model.MaxModelLen+1)

	_, err = openai.ParseCompletion([]byte(`{"truncate_prompt_tokens":5,"prompt":`+ids+`}`), p, openai.Envelope{NewID: "x"})
	require.EqualError(t, err, "invalid: prompt: has more than 1048576 entries")
	_, err = openai.ParseDetokenize([]byte(`{"tokens":`+ids+`}`), p)
	require.EqualError(t, err, "invalid: tokens: has more than 1048576 entries")
	_, err = openai.ParseCompletion([]byte(`{"prompt":"x","allowed_token_ids":`+ids+`}`), p, openai.Envelope{NewID: "x"})
	require.ErrorContains(t, err, "allowed_token_ids: has more than")

	const part = `{"type":"text","text":""},`
	message := `{"role":"user","content":[` + strings.Repeat(part, 50_000) + `"x"]}`
	_, err = openai.ParseChat([]byte(`{"messages":[`+message+`]}`), p, openai.Envelope{NewID: "x"})
	require.NoError(t, err)
	_, err = openai.ParseChat([]byte(`{"messages":[`+message+","+message+`]}`), p, openai.Envelope{NewID: "x"})
	require.EqualError(t, err, "invalid: messages[1].content: the conversation has more than 65536 parts")
}

func TestSizesAreBounds(t *testing.T) {
	for _, s := range []string{"", "plain", "é\n\"\\", "\x00\x1f\xff\xfe", "語"} {
		require.LessOrEqual(t, len(openai.AppendDetokenized(nil, s)), openai.DetokenizedSize(s), "%q", s)
		res := &infer.TokenizeResult{TokenIDs: []int32{0, 9_999_999}, TokenStrs: []string{s, s}}
		require.LessOrEqual(t, len(openai.AppendTokenized(nil, res, profile().Model)), openai.TokenizedSize(res), "%q", s)
	}
}

func TestBoundsOfTypesAreNotShown(t *testing.T) {
	for _, field := range []string{"n", "max_tokens", "seed", "priority", "top_k"} {
		_, err := openai.ParseCompletion([]byte(`{"prompt":"x","`+field+`":99999999999999999999}`), profile(), openai.Envelope{NewID: "x"})
		require.ErrorContains(t, err, field+": must be an integer")
		require.NotContains(t, err.Error(), "2147483647")
		require.NotContains(t, err.Error(), "9223372036854775807")
	}
}
