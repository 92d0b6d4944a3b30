// Writes tokenizer/testdata/features.json: small made-up tokenizers, each using
// one feature of tokenizer.json, with the ids and texts that the Rust tokenizers
// give for them.
//
//   mkdir DIR && cd DIR && npm init -y && npm install --ignore-scripts @anush008/tokenizers@0.6.0
//   node …/tools/tokenizer/features.mjs DIR …/tokenizer/testdata/features.json
//
// @anush008/tokenizers 0.6.0 carries the Rust crate "tokenizers" 0.22.2. The
// vocabularies are learnt here from the texts themselves.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { corpus, fuzz } from './corpus.mjs';

const [dir, out] = process.argv.slice(2);
const { Tokenizer } = createRequire(path.join(path.resolve(dir), 'package.json'))('@anush008/tokenizers');

const general = [...corpus(0).filter((t) => t.length <= 90), ...fuzz(12, 99)];
const short = ['', ' ', 'a  b', '  two  blanks  here ', 'banana', 'eeiou xx aa', 'no', 'aXaaXXa', 'ends with blank ', '12a345', 'é ïà  ô'];

// The byte alphabet of GPT-2.
const byteChar = (() => {
  const direct = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  const chars = [];
  let next = 256;
  for (let b = 0; b < 256; b++) chars.push(String.fromCodePoint(direct(b) ? b : next++));
  return chars;
})();
const spell = (text) => [...Buffer.from(text)].map((b) => byteChar[b]);

// learn runs byte-pair learning over words, given as lists of symbols.
function learn(words, symbols, count) {
  const vocab = [...symbols], merges = [];
  words = words.map((w) => [...w]);
  while (merges.length < count) {
    const pairs = new Map();
    for (const w of words) for (let i = 1; i < w.length; i++) pairs.set(w[i - 1] + ' ' + w[i], (pairs.get(w[i - 1] + ' ' + w[i]) ?? 0) + 1);
    let best = null;
    for (const [p, n] of pairs) if (!best || n > best[1]) best = [p, n];
    if (!best || best[1] < 2) break;
    const [a, b] = best[0].split(' ');
    merges.push(best[0]);
    if (!vocab.includes(a + b)) vocab.push(a + b);
    for (const w of words) for (let i = 1; i < w.length; i++) if (w[i - 1] === a && w[i] === b) w.splice(i - 1, 2, a + b);
  }
  return { vocab, merges };
}

const learnFrom = corpus(60);
const bytelevel = learn(learnFrom.flatMap((t) => t.match(/ ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+/gu) ?? []).map(spell), byteChar, 350);
bytelevel.vocab.push('Ġtokenizer', 'indivisible'); // no merge makes these
const byteTokens = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
const spmChars = [...new Set('▁' + learnFrom.slice(0, 60).join('').replace(/[ <>0-9]/g, ''))].filter((c) => c < '\u3100');
const spm = learn(learnFrom.map((t) => [...('▁' + t.replaceAll(' ', '▁'))].filter((c) => spmChars.includes(c))), ['<unk>', '<s>', '</s>', ...byteTokens, ...spmChars], 250);
const bases = { bytelevel, spm };

const re = (Regex) => ({ Regex });
const seqPre = (...pretokenizers) => ({ type: 'Sequence', pretokenizers });
const split = (pattern, behavior = 'Isolated', invert = false) => ({ type: 'Split', pattern, behavior, invert });
const bytes = (o = {}) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false, ...o });
const seqNorm = (...normalizers) => ({ type: 'Sequence', normalizers });
const added = (id, content, o = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...o });
const template = (before, after, ids) => ({
  type: 'TemplateProcessing', pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }],
  single: [...before.map((id) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } }, ...after.map((id) => ({ SpecialToken: { id, type_id: 0 } }))],
  special_tokens: Object.fromEntries([...before, ...after].map((id) => [id, { id, ids: [ids[id]], tokens: [id] }])),
});
const P = {
  llama3: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  qwen2: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  o200k: "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  tekken: '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  deepseek: '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+',
};
const spmDecoder = { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] };
const spmBase = { base: 'spm', decoder: spmDecoder, model: { byte_fallback: true, fuse_unk: true, unk_token: '<unk>' }, added_tokens: ['<unk>', '<s>', '</s>'].map((c, i) => added(i, c, { special: true })) };
const N = bytelevel.vocab.length, S = spm.vocab.length;

const cases = [
  { name: 'GPT-2', pre_tokenizer: bytes({ use_regex: true }) },
  { name: 'ByteLevel with prefix space', pre_tokenizer: bytes({ use_regex: true, add_prefix_space: true }) },
  { name: 'ByteLevel whole texts as words', pre_tokenizer: bytes() },
  { name: 'Llama 3, ignore_merges, template', pre_tokenizer: seqPre(split(re(P.llama3)), bytes()), model: { ignore_merges: true },
    added_tokens: [added(N, '<|begin_of_text|>', { special: true }), added(N + 1, '<|eot_id|>', { special: true })],
    post_processor: { type: 'Sequence', processors: [bytes(), template(['<|begin_of_text|>'], [], { '<|begin_of_text|>': N })] }, texts: [...general, ' tokenizer tokenizers', 'indivisible indivisible'] },
  { name: 'Qwen 2, NFC, special and other added tokens', normalizer: { type: 'NFC' }, pre_tokenizer: seqPre(split(re(P.qwen2)), bytes()),
    added_tokens: [added(N, '<|endoftext|>', { special: true }), added(N + 1, '<|im_start|>', { special: true }), added(N + 2, '<|im_end|>', { special: true }), added(N + 3, '<think>'), added(N + 4, '</think>')] },
  { name: 'o200k', pre_tokenizer: seqPre(split(re(P.o200k)), bytes()) },
  { name: 'Tekken', pre_tokenizer: seqPre(split(re(P.tekken)), bytes()) },
  { name: 'DeepSeek: a chain of patterns', normalizer: seqNorm(), pre_tokenizer: seqPre(split(re('\\p{N}{1,3}')), split(re('[一-龥぀-ゟ゠-ヿ]+')), split(re(P.deepseek)), bytes()), added_tokens: [added(N, '<｜begin▁of▁sentence｜>', { special: true })] },
  { name: 'Split, then ByteLevel with regex and prefix space', pre_tokenizer: seqPre(split({ String: 'e' }), bytes({ use_regex: true, add_prefix_space: true })) },
  { name: 'Digits one by one', pre_tokenizer: seqPre({ type: 'Digits', individual_digits: true }, bytes({ use_regex: true })) },
  { name: 'Digits in runs', pre_tokenizer: seqPre({ type: 'Digits', individual_digits: false }, bytes({ use_regex: true })) },
  { name: 'merges as pairs, unk never used', pairs: true, pre_tokenizer: bytes({ use_regex: true }), model: { unk_token: '!', fuse_unk: true } },
  { name: 'added tokens: lstrip, rstrip, single_word, overlap', pre_tokenizer: bytes({ use_regex: true }),
    added_tokens: [added(N, '<l>', { lstrip: true }), added(N + 1, '<r>', { rstrip: true }), added(N + 2, '<b>', { lstrip: true, rstrip: true, special: true }), added(N + 3, 'word', { single_word: true }), added(N + 4, 'words'), added(N + 5, 'sun'), added(N + 6, 'sunflower'), added(N + 7, 'flow'), added(N + 8, 'ᎣᏏ')],
    texts: ['a <l> b <r> c <b> d', '  <l>  <r>  <b>  ', '<l><l> <r> <r>', ' \n\u3000<b>\u00a0\t', 'word wordy a word, sword word_ _word word1 éword word', 'words swords', 'sunflower sunflowe sun flowflower', 'ᎣᏏ Ꭳ aᎣᏏ', 'word', 'x<r>', '<r>  y', ' <l>'] },
  { name: 'added tokens: normalized', normalizer: { type: 'NFKC' }, pre_tokenizer: bytes({ use_regex: true }),
    added_tokens: [added(N, 'ﬁ', { normalized: true }), added(N + 1, 'ﬂ'), added(N + 2, '<café>', { normalized: true, special: true }), added(N + 3, 'raw')],
    texts: ['ﬁ fi ﬂ fl', '<café> <cafe\u0301>', 'a<ｃａｆé>b', 'ｒaw raw', 'ﬁﬂﬁ'] },
  { name: 'NFD', normalizer: { type: 'NFD' }, pre_tokenizer: bytes({ use_regex: true }) },
  { name: 'NFKC', normalizer: { type: 'NFKC' }, pre_tokenizer: bytes({ use_regex: true }) },
  { name: 'NFKD', normalizer: { type: 'NFKD' }, pre_tokenizer: bytes({ use_regex: true }) },
  { name: 'Replace and Prepend before ByteLevel', normalizer: seqNorm({ type: 'Replace', pattern: { String: 'an' }, content: 'AN!' }, { type: 'Prepend', prepend: '> ' }), pre_tokenizer: bytes({ use_regex: true }), added_tokens: [added(N, '<x>', { normalized: true }), added(N + 1, '<y>')], texts: ['', 'banana', 'an<x>an', 'an<y>an', '<x>', '<y>', '> <x>'] },
  { name: 'template with prefix and suffix', pre_tokenizer: bytes({ use_regex: true }), added_tokens: [added(N, '<a>', { special: true }), added(N + 1, '<b>', { special: true }), added(N + 2, '<c>', { special: true })], post_processor: template(['<a>', '<b>'], ['<c>'], { '<a>': N, '<b>': N + 1, '<c>': N + 2 }), texts: ['', 'hi', ' <c> x'] },
  { ...spmBase, name: 'Llama 2', normalizer: seqNorm({ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }), pre_tokenizer: null, post_processor: template(['<s>'], [], { '<s>': 1 }) },
  { ...spmBase, name: 'Gemma', normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' }, pre_tokenizer: split({ String: ' ' }, 'MergedWithPrevious'), decoder: { type: 'Sequence', decoders: spmDecoder.decoders.slice(0, 3) }, added_tokens: [...spmBase.added_tokens, ...['\n\n', '▁▁', '<mask>'].map((c, i) => added(spm.vocab.includes(c) ? spm.vocab.indexOf(c) : S + i, c))] },
  { ...spmBase, name: 'fused unk', model: { unk_token: '<unk>', fuse_unk: true }, pre_tokenizer: null },
  { ...spmBase, name: 'single unk', model: { unk_token: '<unk>', fuse_unk: false }, pre_tokenizer: null },
  ...['first', 'always', 'never'].flatMap((prepend_scheme) => [true, false].map((doSplit) => ({
    ...spmBase, name: `Metaspace ${prepend_scheme}, split ${doSplit}`, pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: doSplit }, texts: ['', ' ', 'hello world', ' x  y ', '▁a', '<s>a b</s> c<s>', 'a<s> b', '\n a'],
  }))),
];
for (const behavior of ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']) {
  for (const invert of [false, true]) {
    for (const pattern of [{ String: ' ' }, { String: 'a' }, re('[aeiou]'), re('[aeiou]+')]) {
      cases.push({ name: `Split ${JSON.stringify(pattern)} ${behavior} invert ${invert}`, pre_tokenizer: seqPre(split(pattern, behavior, invert), bytes()), texts: short });
    }
  }
}

const result = [];
for (const c of cases) {
  const { name, base = 'bytelevel', pairs = false, texts = general, model = {}, ...rest } = c;
  const file = { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null, decoder: bytes(), ...rest,
    model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ...model } };
  const { vocab, merges } = bases[base];
  const whole = { ...file, model: { ...file.model, vocab: Object.fromEntries(vocab.map((t, i) => [t, i])), merges: pairs ? merges.map((m) => m.split(' ')) : merges } };
  const t = Tokenizer.fromString(JSON.stringify(whole));
  const ids = [], special = [], decoded = [];
  for (const text of texts) {
    ids.push(Array.from((await t.encode(text, null, { addSpecialTokens: false })).getIds()));
    special.push(Array.from((await t.encode(text, null, { addSpecialTokens: true })).getIds()));
    decoded.push(await t.decode(ids.at(-1), true));
  }
  result.push({ name, base, pairs, file, texts: texts === general ? null : texts, ids, special: JSON.stringify(special) === JSON.stringify(ids) ? null : special, decoded });
}
const note = 'Written by tools/tokenizer/features.mjs: ids and texts from the Rust crate tokenizers 0.22.2. texts null = general, special null = ids.';
fs.writeFileSync(out, `{"note":${JSON.stringify(note)},\n"bases":${JSON.stringify(bases)},\n"general":${JSON.stringify(general)},\n"cases":[\n${result.map((r) => JSON.stringify(r)).join(',\n')}\n]}\n`);
console.log(result.length, 'cases,', fs.statSync(out).size, 'bytes');
