package infer

import "encoding/json"

// Request is one API call that generates text, after validation of its shape
// and ranges. It owns all its memory: nothing points into a server buffer.
type Request struct {
	ID      string // response id with its prefix: chatcmpl-…, cmpl-…
	Arrival int64  // Now() when the body had been read
	Receive int64  // nanoseconds to the end of the body, from when the headers and its first 8 KiB are there

	// Exactly one of Chat and Prompts is set.
	Chat    *ChatInput
	Prompts []Prompt

	N        int // choices per prompt, >= 1
	Sampling SamplingParams

	// MaxTokens is the request's limit; nil = not given, so that the engine
	// resolves it to the rest of the context. MaxTokensParam names the field it
	// came from (max_tokens or max_completion_tokens) for errors.
	MaxTokens      *int
	MaxTokensParam string

	// Structured, if set, makes the engine compile Sampling.Grammar.
	Structured *StructuredOutput

	// Tools, if set, has the output of a chat searched for calls.
	Tools *ToolUse

	// BadWords are the request's strings; the engine tokenizes them into Sampling.BadWords.
	BadWords []string
	// SeedGiven: Sampling.Seed holds the request's seed; else the engine draws one.
	SeedGiven bool

	Echo             bool // each choice's first delta carries the prompt
	ReturnTokenIDs   bool // first delta carries prompt ids, every delta its token ids
	AddSpecialTokens bool // BOS and the like around a text prompt

	// TruncatePromptTokens keeps that many prompt tokens: nil = never truncate,
	// -1 = as many as fit.
	TruncatePromptTokens *int
	TruncateRight        bool // keep the first tokens instead of the last

	Priority  int    // lower runs earlier; only with the priority policy
	CacheSalt string // separates prefix-cache entries

	Key       string // name of the API key that sent it, "" = none; fair share and records go by it
	KeyWeight int    // share in the scheduler relative to other keys; 0 = 1

	Stream         bool // the client reads pieces; the answer's content is the same
	StreamInterval int  // tokens between two deltas of a choice; 0 = the server's
}

// Prompt is one prompt of a completions call: text, or token ids if TokenIDs is non-nil.
type Prompt struct {
	Text     string
	TokenIDs []int32
}

// ChatInput is a conversation to be rendered by the model's chat template. The
// messages are kept as the client's JSON so that key order survives into
// templates that print it.
type ChatInput struct {
	Messages             []json.RawMessage // each an object with a "role"
	Tools                json.RawMessage   // array or nil
	AddGenerationPrompt  bool
	ContinueFinalMessage bool
	TemplateKwargs       json.RawMessage // object or nil: chat_template_kwargs
	Template             string          // request's own template, "" = the model's
}

// Span is a half-open byte range [Start, End) of a string.
type Span struct{ Start, End int }

// TokenizeRequest asks for the tokens of a text or of a rendered conversation.
// Exactly one of Text and Chat is set.
type TokenizeRequest struct {
	Text             *string
	Chat             *ChatInput
	AddSpecialTokens bool
	ReturnTokenStrs  bool
}

// TokenizeResult answers a TokenizeRequest. TokenStrs is nil unless asked for.
type TokenizeResult struct {
	TokenIDs  []int32
	TokenStrs []string
}
