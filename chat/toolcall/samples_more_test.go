package toolcall_test

import (
	"strings"

	"github.com/troupe-llm/troupe/chat/toolcall"
)

var xmlSamples = []sample{
	{name: "one call", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=unit>\ncelsius\n</parameter>\n</function>\n</tool_call>", calls: calls(call("get_weather", oslo))},
	{name: "text around", text: "Sure!<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>\nThat's it.", content: "Sure!\nThat's it.", calls: calls(call("now", "{}"), call("now", "{}"))},
	{name: "types", text: "<tool_call>\n<function=store>\n<parameter=n>\n007\n</parameter>\n<parameter=x>\n3.140\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n<parameter=list>\n[1,\n 2 ]\n</parameter>\n<parameter=map>\n{'a': None, \"b\": [True]}\n</parameter>\n<parameter=text>\n42\n</parameter>\n<parameter=level>\n2\n</parameter>\n<parameter=other>\n5\n</parameter>\n</function>\n</tool_call>",
		calls: calls(call("store", "{\"n\": 7, \"x\": 3.140, \"on\": true, \"list\": [1,\n 2 ], \"map\": {\"a\": null, \"b\": [true]}, \"text\": \"42\", \"level\": 2, \"other\": \"5\"}"))},
	{name: "types that don't fit", text: "<tool_call>\n<function=store>\n<parameter=n>\n1.5\n</parameter>\n<parameter=x>\ninf\n</parameter>\n<parameter=on>\nyes\n</parameter>\n<parameter=list>\n[1\n</parameter>\n<parameter=map>\nnull\n</parameter>\n<parameter=any>\nnull\n</parameter>\n</function>\n</tool_call>",
		calls: calls(call("store", `{"n": 1.5, "x": "inf", "on": "yes", "list": "[1", "map": null, "any": "null"}`))},
	{name: "nullable", text: "<function=store>\n<parameter=maybe>\nnull\n</parameter>\n</function><function=store>\n<parameter=maybe>\nnothing\n</parameter>\n</function>", calls: calls(call("store", `{"maybe": null}`), call("store", `{"maybe": "nothing"}`))},
	{name: "unknown function", text: "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", calls: calls(unknown("f", `{"a": "1"}`))},
	{name: "no call tags", text: "Ok\n<function=now></function>\nDone", content: "Ok\n\nDone", calls: calls(call("now", "{}"))},
	{name: "white space of values", text: "<function=store>\n<parameter=text>\n\n  a\n\n</parameter>\n<parameter=maybe>\n</parameter>\n</function>", calls: calls(call("store", `{"text": "\n  a\n", "maybe": ""}`))},
	{name: "characters to escape", text: "<function=store>\n<parameter=text>\n\"\\\té€\xff\x01</p><parameter=>\n</parameter>\n</function>", calls: calls(call("store", "{\"text\": \"\\\"\\\\\\té€\ufffd\\u0001</p><parameter=>\"}"))},
	{name: "tags in a value", text: "<function=store>\n<parameter=text>\na </parameter> b\n<parameter=q>\nc</parameter>\nd </function> e\n</parameter>\n</function>\n</tool_call>", calls: calls(call("store", `{"text": "a </parameter> b\n<parameter=q>\nc</parameter>\nd </function> e"}`))},
	{name: "no parameter end", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n<parameter=unit>\ncelsius\n</function>\n</tool_call>", calls: calls(call("get_weather", oslo))},
	{name: "no function end", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</tool_call>!", content: "!", calls: calls(call("get_weather", `{"city": "Oslo"}`))},
	{name: "no ends at all", text: "<tool_call><function=now><tool_call><function=now></function>", calls: calls(call("now", "{}"), call("now", "{}"))},
	{name: "text between parameters", text: "<function=get_weather> so <parameter=city>Oslo</parameter> and </function>", content: "", calls: calls(call("get_weather", `{"city": "Oslo</parameter> and "}`))},
	{name: "JSON arguments", text: "<function=add>{\"b\": \"</function>\", \"a\": 1} so <parameter=c>2</parameter></function>!", content: "!", calls: calls(call("add", `{"b": "</function>", "a": 1}`))},
	{name: "arguments almost JSON", text: "<function=add>\n{\"a\": one}</function>!", content: "!", calls: calls(cut("add", `{"a": one}`))},
	{name: "JSON arguments cut", text: "<function=add>{\"a\": [", calls: calls(cut("add", `{"a": [`))},
	{name: "no function name", text: "<tool_call><function=><function= \"now\"></function>", content: "<tool_call><function=>", calls: calls(call("now", "{}"))},
	{name: "no parameter name", text: "<function=add><parameter=\n<parameter=a>1</parameter></function>", calls: calls(call("add", `{"a": 1}`))},
	{name: "white space for ever", text: "<function=store><parameter=text>a</parameter>" + strings.Repeat(" ", 600) + "</function></function>", calls: calls(call("store", `{"text": "a</parameter>`+strings.Repeat(" ", 600)+`</function>"}`))},
	{name: "cut behind a value's tag", text: "<function=store>\n<parameter=text>\na\n</parameter>", calls: calls(cut("store", `{"text": "a"`))},
	{name: "cut in a value's tag", text: "<function=store>\n<parameter=text>\na\n</para", calls: calls(cut("store", `{"text": "a\n</para`))},
	{name: "tags in prose", text: "Use <tool_call> and <function= and </tool_call>. <tool_call>\n<fun", content: "Use <tool_call> and <function= and </tool_call>. <tool_call>\n<fun"},
	{name: "end tag without a call", text: "<function=now></function></tool_call></tool_call>", content: "</tool_call>", calls: calls(call("now", "{}"))},
	{name: "call behind a quoted tag", text: "`<tool_call>` is\n<tool_call>\n<function=now>\n</function>\n</tool_call>", content: "`<tool_call>` is\n", calls: calls(call("now", "{}"))},
	{name: "cut in the name", text: "<tool_call>\n<function=get_w", content: "<tool_call>\n<function=get_w"},
	{name: "cut behind the name", text: "<tool_call>\n<function=get_weather>\n<par", calls: calls(cut("get_weather", ""))},
	{name: "cut in a value", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOs", calls: calls(cut("get_weather", `{"city": "Os`))},
	{name: "cut in a number", text: "<tool_call>\n<function=get_weather>\n<parameter=days>\n1", calls: calls(cut("get_weather", `{"days": 1`))},
	{name: "cut behind a value", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</fun", calls: calls(cut("get_weather", `{"city": "Oslo"`))},
	{name: "cut behind the function", text: "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</function>\n", calls: calls(call("get_weather", `{"city": "Oslo"}`))},
}

var pythonicSamples = []sample{
	{name: "one call", text: "[get_weather(city='Oslo', unit='celsius')]", calls: calls(call("get_weather", oslo))},
	{name: "all types", text: "[register(name='John Doe', age=37, address={'city': 'SF', 'n': (1, -2.5e3)}, role=None, passed=True, aliases=['a', \"b\"])]",
		calls: calls(unknown("register", `{"name": "John Doe", "age": 37, "address": {"city": "SF", "n": [1, -2.5e3]}, "role": null, "passed": true, "aliases": ["a", "b"]}`))},
	{name: "two calls", text: "[add(a=1,b=2), now()]", calls: calls(call("add", `{"a": 1, "b": 2}`), call("now", "{}"))},
	{name: "empty values", text: "[store(map={}, list=[], text='', maybe='''''')]", calls: calls(call("store", `{"map": {}, "list": [], "text": "", "maybe": ""}`))},
	{name: "python tags", text: "<|python_start|>[now()]<|python_end|>", calls: calls(call("now", "{}"))},
	{name: "no call", text: "How [can] I help (you)?", content: "How [can] I help (you)?"},
	{name: "escapes", text: `[store(text='Martha\'s \"x\" \n \x41 \u00e9 \U0001F600 \101 \q \ud83d\ude00', maybe="it's \\")]`, calls: calls(call("store", `{"text": "Martha's \"x\" \n A é 😀 A \\q \ud83d\ude00", "maybe": "it's \\"}`))},
	{name: "kinds of strings", text: "[store(text=r'a\\n', maybe=\"\"\"x\n\"y\"\"\"\", any=u'z')]", content: `", any=u'z')]`, calls: calls(cut("store", `{"text": "a\\n", "maybe": "x\n\"y"`))},
	{name: "long strings", text: "[store(text=r'a\\n\\'', maybe='''x\n'y' ''z''', any=u'z')]", calls: calls(call("store", `{"text": "a\\n\\'", "maybe": "x\n'y' ''z", "any": "z"}`))},
	{name: "numbers", text: "[f(a=1_000, b=.5, c=5., d=-0x1F, e=0b11, f=+7, g=007, h=1E-7, i=-0)]", calls: calls(unknown("f", `{"a": 1000, "b": 0.5, "c": 5.0, "d": -31, "e": 3, "f": 7, "g": 7, "h": 1E-7, "i": -0}`))},
	{name: "keys", text: "[store(map={1: 'a', None: 2, 'b' : {'c': 3,},})]", calls: calls(call("store", `{"map": {"1": "a", "null": 2, "b": {"c": 3}}}`))},
	{name: "JSON names", text: "[store(on=true, maybe=null, any=[false])]", calls: calls(call("store", `{"on": true, "maybe": null, "any": [false]}`))},
	{name: "layout", text: "[\n  add(\n    a = 1 ,\n    b = 2,\n  ) ,\n  now( )\n]\n", calls: calls(call("add", `{"a": 1, "b": 2}`), call("now", "{}"))},
	{name: "dotted name", text: "[a.b.c(x=1)]", calls: calls(unknown("a.b.c", `{"x": 1}`))},
	{name: "text around", text: "To know it: [now()] That's it.", content: "To know it:  That's it.", calls: calls(call("now", "{}"))},
	{name: "unknown name in text", text: "See [docs(v=1)](x).", content: "See [docs(v=1)](x)."},
	{name: "brackets before", text: "[[now()], [1]]", content: "[, [1]]", calls: calls(call("now", "{}"))},
	{name: "positional", text: "[add(1, 2)]", content: "[add(1, 2)]"},
	{name: "no literal", text: "[add(a=1+2, b=3)] x", content: "+2, b=3)] x", calls: calls(cut("add", `{"a": 1`))},
	{name: "bytes", text: "[store(text=b'z')]", content: "'z')]", calls: calls(cut("store", `{"text": `))},
	{name: "a list that is no call", text: "[e5, True]", content: "[e5, True]"},
	{name: "not a number", text: "[add(a=e5)]", content: ")]", calls: calls(cut("add", `{"a": `))},
	{name: "list goes wrong", text: "[now(); now()]", content: "; now()]", calls: calls(call("now", "{}"))},
	{name: "further call goes wrong", text: "[now(), x", content: "x", calls: calls(call("now", "{}"))},
	{name: "comma at the end", text: "[now(),]", calls: calls(call("now", "{}"))},
	{name: "cut in the name", text: "[get_wea", content: "[get_wea"},
	{name: "cut behind the name", text: "[get_weather(", calls: calls(cut("get_weather", ""))},
	{name: "cut in a string", text: "[get_weather(city='Os", calls: calls(cut("get_weather", `{"city": "Os`))},
	{name: "cut in a number", text: "[add(a=1", calls: calls(cut("add", `{"a": `))},
	{name: "name too long", text: "[" + strings.Repeat("f", 300) + "()]", content: "[" + strings.Repeat("f", 300) + "()]"},
	{name: "keyword too long", text: "[now(" + strings.Repeat("f", 300) + "=1)]", content: "[now(" + strings.Repeat("f", 300) + "=1)]"},
	{name: "python tag in text", text: "<|python_start|> x <|python_end|>", content: "<|python_start|> x <|python_end|>"},
	{name: "half a pair", text: `[store(text='\ud83d')]`, calls: calls(call("store", `{"text": "\ud83d"}`))},
}

// samples are all of them, with the formats that share them.
var samples = func() (all []sample) {
	for format, list := range map[string][]sample{
		"hermes": hermesSamples, "llama3_json": llamaSamples, "llama4_json": llamaSamples[:3], "mistral": mistralSamples,
		"deepseek_v3": deepseekSamples, "deepseek_v31": deepseekV31Samples, toolcall.Generic: genericSamples,
		"qwen3_xml": xmlSamples, "qwen3_coder": xmlSamples[:3], "pythonic": pythonicSamples, "llama4_pythonic": pythonicSamples[:5],
	} {
		for _, s := range list {
			s.format = format
			all = append(all, s)
		}
	}
	return all
}()
