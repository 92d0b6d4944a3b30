package actors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

func lengthRequest(maxTokens, truncate int) *infer.Request {
	req := &infer.Request{Prompts: []infer.Prompt{{}}}
	if maxTokens != notGiven {
		req.MaxTokens = &maxTokens
	}
	if truncate != -2 {
		req.TruncatePromptTokens = &truncate
	}
	return req
}

const noTruncation = -2

func TestMaxTokens(t *testing.T) {
	ceiling := 40
	for _, tc := range []struct {
		name      string
		chat      bool
		requested int
		ceiling   *int
		numPrompt int
		want      int
		message   string
	}{
		{name: "completion default", requested: notGiven, numPrompt: 10, want: 16},
		{name: "completion default, little room", requested: notGiven, numPrompt: 90, want: 10},
		{name: "chat default is the rest", chat: true, requested: notGiven, numPrompt: 10, want: 90},
		{name: "generation config caps", chat: true, requested: notGiven, ceiling: &ceiling, numPrompt: 10, want: 40},
		{name: "and caps a request too", requested: 50, ceiling: &ceiling, numPrompt: 10, want: 40},
		{name: "exact fit", requested: 90, numPrompt: 10, want: 90},
		{name: "prompt scoring may fill the context", requested: 0, numPrompt: 100, want: 0},
		{name: "one too many", requested: 90, numPrompt: 11,
			message: "This model's maximum context length is 100 tokens. However, you requested 90 output tokens and your prompt contains at least 11 input tokens, " +
				"for a total of at least 101 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=11)"},
		{name: "over-long chat", chat: true, requested: notGiven, numPrompt: 101,
			message: "This model's maximum context length is 100 tokens. However, you requested 0 output tokens and your prompt contains at least 101 input tokens, " +
				"for a total of at least 101 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=101)"},
		{name: "full context leaves nothing", chat: true, requested: notGiven, numPrompt: 100,
			message: "This model's maximum context length is 100 tokens. However, you requested 1 output tokens and your prompt contains at least 100 input tokens, " +
				"for a total of at least 101 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=100)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := lengthRequest(tc.requested, noTruncation)
			req.Echo = true
			if tc.chat {
				req.Chat, req.Prompts = &infer.ChatInput{}, nil
			}
			model := infer.ModelInfo{MaxModelLen: 100, Defaults: infer.SamplingDefaults{MaxNewTokens: tc.ceiling}}
			b, err := newBudget(req, &model)
			require.Nil(t, err)
			got, err := b.maxTokens(tc.numPrompt)
			if tc.message == "" {
				require.Nil(t, err)
				require.Equal(t, tc.want, got)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, infer.CodeContextLength, err.Code)
			require.Equal(t, "input_tokens", err.Param)
			require.Equal(t, tc.message, err.Message)
		})
	}
}

func TestMaxTokensAboveTheContext(t *testing.T) {
	req := lengthRequest(101, noTruncation)
	req.MaxTokensParam = "max_completion_tokens"
	_, err := newBudget(req, &infer.ModelInfo{MaxModelLen: 100})
	require.NotNil(t, err)
	require.Equal(t, infer.CodeContextLength, err.Code)
	require.Equal(t, "max_completion_tokens", err.Param)
	require.Contains(t, err.Message, "max_completion_tokens=101 cannot be greater than max_model_len=100")
}

func TestNoTokensWithoutEcho(t *testing.T) {
	_, err := newBudget(lengthRequest(0, noTruncation), &infer.ModelInfo{MaxModelLen: 100})
	require.NotNil(t, err)
	require.Equal(t, infer.CodeInvalid, err.Code)
	require.Equal(t, "max_tokens must be at least 1, got 0.", err.Message)
}

func TestTruncation(t *testing.T) {
	ids := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, tc := range []struct {
		name               string
		requested, given   int
		right              bool
		wantIDs            []int32
		wantLimit, context int
	}{
		{name: "none", requested: 3, given: noTruncation, wantIDs: ids, wantLimit: 97, context: 100},
		{name: "keeps the end", requested: 3, given: 2, wantIDs: ids[8:], wantLimit: 0, context: 100},
		{name: "keeps the start", requested: 3, given: 2, right: true, wantIDs: ids[:2], wantLimit: 2, context: 100},
		{name: "longer than the prompt", requested: 3, given: 20, wantIDs: ids, wantLimit: 0, context: 100},
		{name: "as many as fit", requested: 3, given: -1, wantIDs: ids[5:], wantLimit: 0, context: 8},
		{name: "as many as fit, one for the output", requested: notGiven, given: -1, wantIDs: ids[3:], wantLimit: 0, context: 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := newBudget(lengthRequest(tc.requested, tc.given), &infer.ModelInfo{MaxModelLen: tc.context})
			require.Nil(t, err)
			require.Equal(t, tc.wantLimit, b.encodeLimit(tc.right))
			require.Equal(t, tc.wantIDs, b.cut(ids, tc.right))
		})
	}
	_, err := newBudget(lengthRequest(1, 101), &infer.ModelInfo{MaxModelLen: 100})
	require.NotNil(t, err)
	require.Equal(t, "truncate_prompt_tokens", err.Param)
}
