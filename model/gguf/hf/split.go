package hf

// split is how a kind of byte-level BPE cuts texts before merging.
type split struct {
	stages       []any // pre-tokenizers before ByteLevel
	ignoreMerges bool  // a piece that is a token is that token
	addBOS       bool  // unless the file says otherwise
}

// The split patterns, as tokenizer.json of the models named has them.
const (
	contraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	cl100kHead  = contraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|`
	cl100kTail  = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	upper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	prefix      = `[^\r\n\p{L}\p{N}]?`
	o200kTail   = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = cl100kHead + `\p{N}{1,3}` + cl100kTail
	patternQwen2  = cl100kHead + `\p{N}` + cl100kTail
	patternO200k  = prefix + upper + `*` + lower + `+` + contraction + `?|` + prefix + upper + `+` + lower + `*` + contraction + `?|\p{N}{1,3}` + o200kTail
	patternTekken = prefix + upper + `*` + lower + `+|` + prefix + upper + `+` + lower + `*|\p{N}` + o200kTail
)

func regex(pattern string) object {
	return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}
}

var (
	digits = object{"type": "Digits", "individual_digits": true}

	splitGPT2   = split{stages: []any{regex(patternGPT2)}}
	splitDigits = split{stages: []any{digits, regex(patternGPT2)}}
	splitLlama3 = split{stages: []any{regex(patternLlama3)}, ignoreMerges: true, addBOS: true}
	splitCL100k = split{stages: []any{regex(patternLlama3)}}
	splitQwen2  = split{stages: []any{regex(patternQwen2)}}
	splitO200k  = split{stages: []any{regex(patternO200k)}}
	splitTekken = split{stages: []any{regex(patternTekken)}, ignoreMerges: true, addBOS: true}
)

// splits has the kinds of tokenizer.ggml.pre.
var splits = map[string]*split{
	"gpt-2": &splitGPT2, "phi-2": &splitGPT2, "olmo": &splitGPT2, "jais": &splitGPT2,
	"smollm": &splitDigits, "starcoder": &splitDigits, "refact": &splitDigits, "command-r": &splitDigits, "codeshell": &splitDigits, "exaone": &splitDigits,
	"llama-bpe": &splitLlama3, "llama3": &splitLlama3, "llama-v3": &splitLlama3, "falcon3": &splitLlama3, "pixtral": &splitLlama3,
	"dbrx": &splitCL100k, "smaug-bpe": &splitCL100k, "chatglm-bpe": &splitCL100k,
	"qwen2": &splitQwen2, "stablelm2": &splitQwen2, "hunyuan": &splitQwen2, "deepseek-r1-qwen": &splitQwen2, "megrez": &splitQwen2,
	"gpt-4o": &splitO200k, "llama4": &splitO200k,
	"tekken": &splitTekken,
}

// splitter returns the file's kind. Files older than the key are refused: their
// texts would be cut wrongly without anybody noticing.
func splitter(m *meta) *split {
	const key = "tokenizer.ggml.pre"
	if !m.required(key) {
		return &split{}
	}
	kind := m.text(key, "")
	if s := splits[kind]; s != nil {
		return s
	}
	m.fail(key, "is %q, which is not supported", clip(kind))
	return &split{}
}
