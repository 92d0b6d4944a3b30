package toolcall_test

import (
	"encoding/json"

	"github.com/troupe-llm/troupe/chat/toolcall"
)

var tools = []toolcall.Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer"}},"required":["city"]}`)},
	{Name: "add", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`)},
	{Name: "now"},
	{Name: "store", Parameters: json.RawMessage(`{"type":"object","$defs":{"Count":{"type":"integer"}},"properties":{
		"text":{"type":"string"},"maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},"n":{"$ref":"#/$defs/Count"},"x":{"type":"float"},"on":{"type":"boolean"},
		"list":{"type":"array"},"map":{"type":["object","null"]},"level":{"enum":[1,2]},"any":{}}}`)},
}

// sample is an output and what it says.
type sample struct {
	name, format, text string
	content            string
	calls              []toolcall.Call
}

func call(name, arguments string) toolcall.Call {
	return toolcall.Call{Name: name, Arguments: arguments}
}

func cut(name, arguments string) toolcall.Call {
	return toolcall.Call{Name: name, Arguments: arguments, Incomplete: true}
}

func unknown(name, arguments string) toolcall.Call {
	return toolcall.Call{Name: name, Arguments: arguments, Unknown: true}
}

func calls(c ...toolcall.Call) []toolcall.Call { return c }

const oslo = `{"city": "Oslo", "unit": "celsius"}`

// The first samples of each format are what the pages named at its declaration show; the
// others are slips of models and bugs of servers.
var hermesSamples = []sample{
	{name: "one call", text: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + oslo + "}\n</tool_call>", calls: calls(call("get_weather", oslo))},
	{name: "arguments first", text: "<tool_call>\n{\"arguments\": " + oslo + ", \"name\": \"get_weather\"}\n</tool_call>", calls: calls(call("get_weather", oslo))},
	{name: "two calls", text: "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 2, \"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
		calls: calls(call("add", `{"b": 2, "a": 1}`), call("now", "{}"))},
	{name: "text around", text: "Let me see.\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"now\", \"arguments\":{}}</tool_call>\nDone.",
		content: "Let me see.\n\nDone.", calls: calls(call("now", "{}"), call("now", "{}"))},
	{name: "no call", text: "Hello, how are you?\n", content: "Hello, how are you?\n"},
	{name: "white space alone", text: " \n", content: " \n"},
	{name: "white space before and behind", text: "\n\n<tool_call>{\"name\": \"now\"}</tool_call>\n", calls: calls(call("now", "{}"))},
	{name: "boolean last", text: "<tool_call>{\"name\": \"f\", \"arguments\": {\"trigger\": true}}</tool_call>", calls: calls(unknown("f", `{"trigger": true}`))},
	{name: "layout kept", text: "<tool_call>{\"name\" : \"add\" ,\n\"arguments\":{ \"b\":1,\t\"a\" : 2.50e+1 } , \"id\": [1, {}]}</tool_call>", calls: calls(call("add", "{ \"b\":1,\t\"a\" : 2.50e+1 }"))},
	{name: "escapes kept", text: `<tool_call>{"name": "store", "arguments": {"text": "\u00e9 é \ud83d\ude00 \"}{\" \\ </tool_call> \/"}}</tool_call>`,
		calls: calls(call("store", `{"text": "\u00e9 é \ud83d\ude00 \"}{\" \\ </tool_call> \/"}`))},
	{name: "braces nested", text: `<tool_call>{"name": "store", "arguments": {"map": {"a": [{"b": {}}, []]}, "text": "}}"}}</tool_call>`,
		calls: calls(call("store", `{"map": {"a": [{"b": {}}, []]}, "text": "}}"}`))},
	{name: "control characters", text: "<tool_call>{\"name\": \"store\", \"arguments\": {\"text\": \"a\nb\tc\x01\"}}</tool_call>", calls: calls(call("store", `{"text": "a\nb\tc\u0001"}`))},
	{name: "name escaped", text: `<tool_call>{"name": "g\u0065t_weather", "arguments": {}}</tool_call>`, calls: calls(call("get_weather", "{}"))},
	{name: "arguments as a string", text: `<tool_call>{"name": "add", "arguments": "{\"a\": 1}"}</tool_call>`, calls: calls(call("add", `{"a": 1}`))},
	{name: "arguments that are a string", text: `<tool_call>{"name": "add", "arguments": "hello"}</tool_call>`, calls: calls(call("add", `"hello"`))},
	{name: "arguments null", text: `<tool_call>{"name": "now", "arguments": null}</tool_call>`, calls: calls(call("now", `{}`))},
	{name: "arguments a number", text: `<tool_call>{"arguments": 12, "name": "add"}</tool_call>`, calls: calls(call("add", `12`))},
	{name: "no end tag", text: "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}", calls: calls(call("now", "{}"))},
	{name: "end tag cut", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_", content: "</tool_", calls: calls(call("now", "{}"))},
	{name: "two objects in one tag", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>",
		calls: calls(call("now", "{}"), call("add", `{"a": 1}`))},
	{name: "a brace too many", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}}}</tool_call>!", content: "!", calls: calls(call("now", "{}"))},
	{name: "no end tag between", text: "<tool_call>{\"name\": \"now\"}<tool_call>{\"name\": \"now\"}", calls: calls(call("now", "{}"), call("now", "{}"))},
	{name: "tag in prose", text: "Write <tool_call> first, then </tool_call>. <tool_call>{\"name\": \"now\"}</tool_call> </tool_call>",
		content: "Write <tool_call> first, then </tool_call>.  </tool_call>", calls: calls(call("now", "{}"))},
	{name: "tag before an object that is no call", text: "<tool_call>{\"city\": \"Oslo\"}</tool_call>", content: "<tool_call>{\"city\": \"Oslo\"}</tool_call>"},
	{name: "tag before a tag", text: "<tool_call> <tool_call>{\"name\": \"now\"}</tool_call>", content: "<tool_call> ", calls: calls(call("now", "{}"))},
	{name: "cut in the tag", text: "ok <tool_ca", content: "ok <tool_ca"},
	{name: "cut in the name", text: "<tool_call>\n{\"name\": \"get_w", content: "<tool_call>\n{\"name\": \"get_w"},
	{name: "cut behind the name", text: "<tool_call>\n{\"name\": \"now\"", calls: calls(cut("now", ""))},
	{name: "cut in the arguments", text: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Os", calls: calls(cut("get_weather", `{"city": "Os`))},
	{name: "cut in an escape", text: "<tool_call>{\"name\": \"store\", \"arguments\": {\"text\": \"\\u00", calls: calls(cut("store", `{"text": "\u00`))},
	{name: "cut in a string", text: "<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a", calls: calls(cut("add", `"{\"a`))},
	{name: "cut behind the arguments", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}", calls: calls(call("now", `{}`))},
	{name: "name cut, arguments there", text: "<tool_call>{\"arguments\": {}, \"name\": \"no", content: "<tool_call>{\"arguments\": {}, \"name\": \"no"},
	{name: "arguments no JSON", text: "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": one, \"s\": \"}\"}}</tool_call>!", content: "!", calls: calls(cut("add", `{"a": one, "s": "}"}`))},
	{name: "brackets crossed", text: "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [1}}</tool_call>!", content: "!", calls: calls(cut("add", `{"a": [1}}`))},
	{name: "quote missing", text: "<tool_call>{\"name\": \"store\", \"arguments\": {\"text\": \"a, \"n\": 1}}\n</tool_call><tool_call>{\"name\": \"now\"}</tool_call>",
		calls: calls(cut("store", "{\"text\": \"a, \"n\": 1}}\\n"), call("now", "{}"))},
	{name: "no JSON behind the arguments", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}; \"x\": \"}\"}</tool_call>!", content: "!", calls: calls(call("now", "{}"))},
	{name: "no JSON before the arguments", text: "<tool_call>{\"name\": \"now\" \"arguments\": {}}</tool_call>!", content: "!", calls: calls(cut("now", ""))},
	{name: "escapes in what is no JSON", text: `<tool_call>{"name": "add", "arguments": {"a": one, "s": "\"}", "t": ["\\"]}}</tool_call>!`, content: "!", calls: calls(cut("add", `{"a": one, "s": "\"}", "t": ["\\"]}`))},
	{name: "arguments a word", text: `<tool_call>{"name": "add", "arguments": one, "id": 1}</tool_call>!`, content: "!", calls: calls(cut("add", "one"))},
	{name: "arguments almost null", text: `<tool_call>{"name": "add", "arguments": nil}</tool_call>!`, content: "!", calls: calls(cut("add", "nil"))},
	{name: "no JSON in another value", text: `<tool_call>{"name": "now", "x": {"y": [one]}, "arguments": {}}</tool_call>!`, content: "!", calls: calls(cut("now", ""))},
	{name: "no JSON in a key", text: "<tool_call>{\"name\": \"now\", \"arguments\": {}, \"x\n}\": 1}</tool_call>!", content: "!", calls: calls(call("now", "{}"))},
	{name: "no JSON before the name", text: "<tool_call>{name: now}</tool_call>", content: "<tool_call>{name: now}</tool_call>"},
	{name: "name empty", text: "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", content: "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"},
	{name: "name in the arguments", text: "<tool_call>{\"arguments\":{\"name\": \"John\"}, \"name\": \"now\"}</tool_call>", calls: calls(call("now", `{"name": "John"}`))},
	{name: "keys twice", text: "<tool_call>{\"name\": \"now\", \"name\": \"add\", \"arguments\": {}, \"parameters\": {\"a\": 1}}</tool_call>", calls: calls(call("now", "{}"))},
	{name: "an odd byte", text: "a\xffb<tool_call>{\"name\": \"store\", \"arguments\": {\"text\": \"\xe2\x82\"}}</tool_call>", content: "a\xffb", calls: calls(call("store", "{\"text\": \"\xe2\x82\"}"))},
}

var llamaSamples = []sample{
	{name: "one call", text: `{"name": "get_weather", "parameters": ` + oslo + `}`, calls: calls(call("get_weather", oslo))},
	{name: "python tag", text: `<|python_tag|>{"name": "get_weather", "parameters": ` + oslo + `}`, calls: calls(call("get_weather", oslo))},
	{name: "semicolons", text: `{"name": "add", "parameters": {"a": 1}}; {"name": "now", "parameters": {}} ;{"name": "add", "arguments": {"a": "1"}}`,
		calls: calls(call("add", `{"a": 1}`), call("now", "{}"), call("add", `{"a": "1"}`))},
	{name: "type first", text: `{"type": "function", "name": "now", "parameters": {}}`, calls: calls(call("now", "{}"))},
	{name: "text around", text: `Here: {"name": "now", "parameters": {}} Would {you} like more?`, content: "Here:  Would {you} like more?", calls: calls(call("now", "{}"))},
	{name: "no name", text: `{"parameters": {}}`, content: `{"parameters": {}}`},
	{name: "no parameters", text: `{"name": "now"}`, content: `{"name": "now"}`},
	{name: "no object", text: `{"name": "Bob", "parameters": 3}`, content: `{"name": "Bob", "parameters": 3}`},
	{name: "a string", text: `{"name": "Bob", "parameters": "x"}`, content: `{"name": "Bob", "parameters": "x"}`},
	{name: "an object as a string", text: `{"name": "add", "parameters": "{\"a\": 1}"}`, calls: calls(call("add", `{"a": 1}`))},
	{name: "no JSON", text: `{"name": "x", "parameters": {no json}`, content: "", calls: calls(toolcall.Call{Name: "x", Arguments: "{no json}", Incomplete: true, Unknown: true})},
	{name: "code", text: "func f() { return {} }; if { {", content: "func f() { return {} }; if { {"},
	{name: "objects before the call", text: `{{"a": {"name": "now", "parameters": {}}} {"name": "now", "parameters": {}}`, content: `{{"a": {"name": "now", "parameters": {}}} `, calls: calls(call("now", "{}"))},
	{name: "cut behind a known name", text: `{"name": "get_weather", "par`, calls: calls(cut("get_weather", ""))},
	{name: "cut behind an unknown name", text: `{"name": "bob", "par`, content: `{"name": "bob", "par`},
	{name: "cut in the parameters", text: `{"name": "bob", "parameters": {"a": [`, calls: calls(toolcall.Call{Name: "bob", Arguments: `{"a": [`, Incomplete: true, Unknown: true})},
	{name: "other tools of the tag", text: `<|python_tag|>brave_search.call(query="x")`, content: `<|python_tag|>brave_search.call(query="x")`},
	{name: "deeply nested", text: `{"name": "store", "parameters": {"map": {"a": {"b": {"c": {"d": "{x} [y]"}}}}}}`, calls: calls(call("store", `{"map": {"a": {"b": {"c": {"d": "{x} [y]"}}}}}`))},
}

var mistralSamples = []sample{
	{name: "array", text: `[TOOL_CALLS] [{"name": "get_weather", "arguments": ` + oslo + `}]`, calls: calls(call("get_weather", oslo))},
	{name: "array of two", text: `[TOOL_CALLS][{"name": "add", "arguments":{"a": 3.5, "b": 4}}, {"arguments": {"name": "J"}, "name": "now"}]`,
		calls: calls(call("add", `{"a": 3.5, "b": 4}`), call("now", `{"name": "J"}`))},
	{name: "name form", text: `[TOOL_CALLS]add{"a": 3.5, "b": 4}[TOOL_CALLS]now{}`, calls: calls(call("add", `{"a": 3.5, "b": 4}`), call("now", `{}`))},
	{name: "name form with ARGS", text: `[TOOL_CALLS]get_weather[ARGS]` + oslo, calls: calls(call("get_weather", oslo))},
	{name: "name form with an id", text: `[TOOL_CALLS]now[CALL_ID]VvvODy9mT[ARGS]{}`, calls: calls(call("now", "{}"))},
	{name: "text around", text: `Hello[TOOL_CALLS] [{"name": "add", "arguments":{"a": 1}}]` + "\nextra", content: "Hello\nextra", calls: calls(call("add", `{"a": 1}`))},
	{name: "object without array", text: `[TOOL_CALLS] {"name": "now"}`, calls: calls(call("now", "{}"))},
	{name: "no arguments", text: `[TOOL_CALLS] [{"name": "now", "id": "123456789"}]`, calls: calls(call("now", "{}"))},
	{name: "brackets in text", text: "a[0] [TOOL_CALLS", content: "a[0] [TOOL_CALLS"},
	{name: "marker in prose", text: "The [TOOL_CALLS] marker, [TOOL_CALLS].", content: "The [TOOL_CALLS] marker, [TOOL_CALLS]."},
	{name: "marker twice", text: "[TOOL_CALLS]ad[TOOL_CALLS]add{}", content: "[TOOL_CALLS]ad", calls: calls(call("add", "{}"))},
	{name: "empty array", text: "[TOOL_CALLS][]", content: "[TOOL_CALLS][]"},
	{name: "array goes wrong", text: `[TOOL_CALLS][{"name": "now"}, 1]`, content: "1]", calls: calls(call("now", "{}"))},
	{name: "wrong arguments", text: `[TOOL_CALLS]add{"a": one}[TOOL_CALLS]now{}`, calls: calls(cut("add", `{"a": one}`), call("now", "{}"))},
	{name: "wrong arguments never close", text: `[TOOL_CALLS]add{"a": one[TOOL_CALLS]now{}`, calls: calls(cut("add", `{"a": one`), call("now", "{}"))},
	{name: "cut in the name", text: "[TOOL_CALLS]get_we", content: "[TOOL_CALLS]get_we"},
	{name: "cut in the arguments", text: `[TOOL_CALLS]add[ARGS]{"a": 1, "b"`, calls: calls(cut("add", `{"a": 1, "b"`))},
	{name: "cut in the array", text: `[TOOL_CALLS] [{"name": "now", "arguments": {}},`, calls: calls(call("now", "{}"))},
}

const begin, callBegin, sep, callEnd, end = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"

var deepseekSamples = []sample{
	{name: "one call", text: begin + callBegin + "function" + sep + "get_weather\n```json\n" + oslo + "\n```" + callEnd + end, calls: calls(call("get_weather", oslo))},
	{name: "two calls", text: begin + callBegin + "function" + sep + "get_weather\n```json\n" + oslo + "\n```" + callEnd + "\n" + callBegin + "function" + sep + "now\n```json\n{}\n```" + callEnd + end,
		calls: calls(call("get_weather", oslo), call("now", "{}"))},
	{name: "text around", text: "Let me check." + begin + callBegin + "function" + sep + "now\n```json\n{}\n```" + callEnd + end + "\nSo.", content: "Let me check.\nSo.", calls: calls(call("now", "{}"))},
	{name: "quotes escaped", text: begin + callBegin + "function" + sep + "store\n```json\n" + `{"text": "He said \"hi\" ` + "```" + `", "x": "C:\\f"}` + "\n```" + callEnd + end,
		calls: calls(call("store", `{"text": "He said \"hi\" `+"```"+`", "x": "C:\\f"}`))},
	{name: "no begin", text: callBegin + "function" + sep + "now\n```json\n{}\n```" + callEnd, calls: calls(call("now", "{}"))},
	{name: "code in text", text: "```go\nx := 1\n```\n" + begin, content: "```go\nx := 1\n```\n" + begin},
	{name: "a brace missing", text: begin + callBegin + "function" + sep + "add\n```json\n{\"a\": 1\n```" + callEnd + end, calls: calls(cut("add", "{\"a\": 1\n"))},
	{name: "no type", text: begin + callBegin + "now\n```json\n{}", content: begin + callBegin + "now\n```json\n{}"},
	{name: "cut", text: begin + callBegin + "function" + sep + "add\n```json\n{\"a\":", calls: calls(cut("add", `{"a":`))},
}

var deepseekV31Samples = []sample{
	{name: "two calls", text: "Ok." + begin + callBegin + "get_weather" + sep + oslo + callEnd + callBegin + "now" + sep + "{}" + callEnd + end, content: "Ok.", calls: calls(call("get_weather", oslo), call("now", "{}"))},
	{name: "cut", text: begin + callBegin + "add" + sep + "{\"a\": 1", calls: calls(cut("add", `{"a": 1`))},
}

var genericSamples = []sample{
	{name: "tags", text: `<tool_call>{"name": "get_weather", "arguments": ` + oslo + `}</tool_call>`, calls: calls(call("get_weather", oslo))},
	{name: "fence", text: "I will.\n```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n```\nOk?\n```\nx\n```", content: "I will.\n\nOk?\n```\nx\n```", calls: calls(call("add", `{"a": 1}`))},
	{name: "bare", text: `{"name": "add", "parameters": {"a": 1}}`, calls: calls(call("add", `{"a": 1}`))},
	{name: "list", text: `[{"name": "add", "parameters": {"a": 1}}, {"name": "now", "parameters": {}}]`, calls: calls(call("add", `{"a": 1}`), call("now", "{}"))},
	{name: "list in a fence", text: "```\n[ {\"name\": \"now\", \"arguments\": {}} ,\n]\n```", calls: calls(call("now", "{}"))},
	{name: "other JSON", text: "[1, 2] [{\"a\": 1}] ```json\n{\"name\": \"x\"}\n``` {}", content: "[1, 2] [{\"a\": 1}] ```json\n{\"name\": \"x\"}\n``` {}"},
	{name: "code", text: "```go\nvar x = []int{1}\n```", content: "```go\nvar x = []int{1}\n```"},
	{name: "fence cut", text: "```js", content: "```js"},
	{name: "cut", text: `[{"name": "add", "parameters": {"a": `, calls: calls(cut("add", `{"a": `))},
}
