package toolcall

// The markers of DeepSeek's tool calls. The bars are U+FF5C, the gaps U+2581.
const (
	deepseekBegin     = "<｜tool▁calls▁begin｜>"
	deepseekEnd       = "<｜tool▁calls▁end｜>"
	deepseekCallBegin = "<｜tool▁call▁begin｜>"
	deepseekCallEnd   = "<｜tool▁call▁end｜>"
	deepseekSep       = "<｜tool▁sep｜>"
)

// deepseekV3 is, for V3 and R1, between begin and end for each call
//
//	<call begin>function<sep>name
//	```json
//	{...}
//	```<call end>
//
// https://huggingface.co/deepseek-ai/DeepSeek-V3-0324 (tokenizer_config.json, chat template).
var deepseekV3 = deepseek(header{
	{lit: deepseekCallBegin, optional: true},
	{}, // the type, always "function"
	{lit: deepseekSep},
	{name: true},
	{lit: "```json", optional: true},
})

// deepseekV31 is <call begin>name<sep>{...}<call end>.
// https://huggingface.co/deepseek-ai/DeepSeek-V3.1 ("ToolCall").
var deepseekV31 = deepseek(header{
	{lit: deepseekCallBegin, optional: true},
	{name: true},
	{lit: deepseekSep},
})

func deepseek(h header) frame {
	closes := []string{"```", deepseekCallEnd, deepseekEnd}
	return frame{
		opens:  map[string][]string{deepseekBegin: closes, deepseekCallBegin: closes},
		header: h,
	}
}
