// The texts on which tokenizers are compared: hand-picked ones, then
// pseudo-random ones from a fixed seed, so that every run makes the same list.
const picked = [
  '', ' ', '  ', '   ', 'a', 'Hello, world!', '  leading and trailing  ', '\n\n\n', '\r\n\r\n x\r\n', '\t\ttabs\t', ' \t \n ',
  "I'm don't WE'LL they've it's IT'S i'D ’s 'ſ x'ſ 'Sx 'tis o'clock 'LL 'Re'vE", "'", "''", "' s", "a'", "'l", "'LLama",
  '1234567890 12 345 6,789.01 ٣٤٥٦ १२३४ Ⅷ ½ ²³', '日本語のテキスト、そして漢字。', '中文分词测试，你好世界！123', '한국어 토크나이저 테스트입니다.',
  'Привет, как дела? Ёлка', 'العربية من اليمين إلى اليسار ١٢٣', 'עברית עם ניקוד שָׁלוֹם', 'हिन्दी में परीक्षण क्षत्रिय', 'ภาษาไทยไม่มีช่องว่าง', 'Việt Nam: tiếng Việt có dấu',
  'café vs cafe\u0301 naïve naı̈ve Å Å', 'ﬁ ligature ﬃ ½ ² ™ ①', '🙂👩‍👩‍👧‍👦🏳️‍🌈👍🏽 é', '\u200b zero\u200bwidth \ufeffBOM \u00a0nbsp \u3000ideographic', '\u202eRTL override\u202c', '\u0000\u0001\u0007 control \uffff',
  '𝕳𝖊𝖑𝖑𝖔 𝓌𝓸𝓇𝓁𝒹 𠜎𠜱𠝹', 'ǅ ǆ Ǆ ẞ ß ŉ İ ı', 'ᎣᏏᏲ Cherokee ⴰⵣⵓⵍ', 'def f(x):\n    return x**2 + 1  # comment\n\tif x:\n\t\tpass\n', '{"a": [1,2,{"b":null}], "c": "\\n"}',
  '<html><body class="x">&nbsp;</body></html>', 'https://example.com/a?b=c&d=%20e#f', 'x=1;y=2;;;===>>><<<!!!???...---___***///\\\\\\', '$€£¥₹ %^&*()', "SELECT * FROM t WHERE a='b' AND c<>1;",
  '<|begin_of_text|>hi<|eot_id|>', '<|im_start|>user\nhi<|im_end|>\n', '<s>[INST] hi [/INST]</s>', '<bos><start_of_turn>user\nhi<end_of_turn>', '<｜begin▁of▁sentence｜>x<｜User｜>', '<|endoftext|><|endoftext|>', ' <|eot_id|> spaced', '<think>\nhm\n</think>\n\n', '<|im_<|im_end|>|>', '<<s>>',
  '▁underscore▁▁ _ __', 'a▁b', 'a'.repeat(64), 'a'.repeat(300), 'ab'.repeat(200), 'xyz'.repeat(99), ' '.repeat(80) + 'x', '\n'.repeat(40), ' '.repeat(200), 'word ' + 'very '.repeat(50) + 'long',
  'ÀÁÂÃÄÅ àáâãäå ñ ç', 'Ω ω Ω µ μ', '\u1e9b\u0323 \u212b \ufb01', 'a\u0300\u0301\u0302b', 'नि नि', 'ᄀ ᄀᆞ 각 각', 'x' + '\u0301'.repeat(20) + 'y', 'q' + '\u0316\u0301'.repeat(25) + ' 각 z' + '\u0307\u0323'.repeat(20),
  'Mixed 中文 and English和123混合 text。', 'ｆｕｌｌｗｉｄｔｈ　ＴＥＸＴ１２３', '😀😀', 'line1\nline2\n\nline3\n\n\n\nline4', 'trailing newline\n', 'trailing spaces   \n   next', ' \n \n ', '\u2028line sep\u2029', '\x85nel', 'don\'t stop—believin’ “quotes” …',
  'CamelCaseHTTPServerID2Name_snake_case-kebab', 'ABCdef ABC DEFghi dEF ǅungla あABC ABCあ あAあAAb ʰA Aʰ', 'path/to/file.go\n// comment/\n/', '!\u0301A', '\u0301\u0302 x', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', 'ACGT'.repeat(100),
];

function random(seed) {
  return () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
}

const ranges = [[0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x36f], [0x370, 0x5ff], [0x600, 0x6ff], [0x900, 0x97f], [0xe00, 0xe7f], [0x1100, 0x11ff], [0x2000, 0x206f], [0x3040, 0x30ff], [0x4e00, 0x9fff], [0xac00, 0xd7a3], [0x1f300, 0x1f6ff], [0x20000, 0x2a6df], [9, 13]];
const snippets = ["'s", "'LL", "'ſ", '\r\n', '\n\n', '  ', '12345', 'ABC', 'Ab', 'é', 'é', '<|', '|>', '<s>', '▁', '/', ' /', '🙂', '\u200d', 'ǅ', 'ʰ', 'あ'];

// fuzz returns n pseudo-random texts.
export function fuzz(n, seed) {
  const rnd = random(seed), out = [];
  for (let i = 0; i < n; i++) {
    let t = '';
    const wild = rnd() < 0.5 ? 3 : ranges.length;
    for (let k = 1 + Math.floor(rnd() * 40); k > 0; k--) {
      if (rnd() < 0.3) {
        t += snippets[Math.floor(rnd() * snippets.length)];
      } else {
        const r = ranges[Math.floor(rnd() * wild)];
        t += String.fromCodePoint(r[0] + Math.floor(rnd() * (r[1] - r[0] + 1)));
      }
      if (rnd() < 0.2) t += ' ';
    }
    out.push(t);
  }
  return out;
}

export const corpus = (n = 1000) => [...picked, ...fuzz(n, 12345)];
