// Writes tokenizer/testdata/unigram.json: tokenizers of type Unigram, each as a
// kind of published model has it, with the ids and texts that the Rust tokenizers
// give for them.
//
//   apt-get install sentencepiece   # 0.1.97 of Debian 12: spm_train
//   mkdir DIR && cd DIR && npm init -y && npm install --ignore-scripts @anush008/tokenizers@0.6.0
//   node …/tools/tokenizer/unigram.mjs DIR …/tokenizer/testdata/unigram.json TEXT…
//
// @anush008/tokenizers 0.6.0 carries the Rust crate "tokenizers" 0.22.2. The
// vocabulary is learnt from the files TEXT (the one recorded: this repository's
// docs), and so is the charsmap, from the few rules below.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { corpus, fuzz } from './corpus.mjs';
import { readModel } from './proto.mjs';

const [dir, out, ...files] = process.argv.slice(2);
const { Tokenizer } = createRequire(path.join(path.resolve(dir), 'package.json'))('@anush008/tokenizers');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'spm-'));
const input = path.join(work, 'input.txt'), rules = path.join(work, 'rules.tsv'), prefix = path.join(work, 'unigram');
fs.writeFileSync(input, files.map((f) => fs.readFileSync(f, 'utf8')).join('\n'));
const hex = (s) => [...s].map((c) => c.codePointAt(0).toString(16).toUpperCase()).join(' ');
const map = { 'ﬁ': 'fi', '½': '1⁄2', 'e\u0301': 'é', '①': '1', '\t': ' ', '\n': ' ', '\r': ' ', '\u3000': ' ', '\u00a0': ' ', 'Å': 'Å', '\u00ad': '', 'x': 'ks', 'x\u0301': 'X', '가': '가', 'ﬃ': 'ffi', '™': 'TM', '\u0300': '`', 'a\u0308\u0323': 'Q', '🙂': ':)' };
fs.writeFileSync(rules, Object.entries(map).map(([k, v]) => `${hex(k)}\t${hex(v)}`).join('\n') + '\n');
execFileSync('spm_train', [`--input=${input}`, `--model_prefix=${prefix}`, '--model_type=unigram', '--vocab_size=900', '--character_coverage=0.98', '--byte_fallback=true', '--num_threads=1', `--normalization_rule_tsv=${rules}`], { stdio: 'ignore' });
const { tokens, scores, charsmap } = readModel(prefix + '.model');
const vocab = tokens.map((t, i) => [t, scores[i]]);

const texts = [...corpus(0), ...fuzz(60, 7), '  a  b ', 'x\u0301 x\u0301\u0301 xx\u0301', 'a\u0308\u0323 é̀ ﬁ\u0301 ﬁ\u0301\u0302', '각각 각', '<unk>', 'é<unk>é 日<unk>日', '``quoted\'\' ÀÉÎ İ Σς', '\u00ad\u00ad', '🏻 a🏻 x🏻 x\u200d x\u0903 \u0600x x\r\n'];
const added = (id, content, o = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...o });
const seq = (kind, ...members) => ({ type: 'Sequence', [kind]: members });
const metaspace = (prepend_scheme = 'always', split = true) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split });
const replace = (pattern, content) => ({ type: 'Replace', pattern, content });
const precompiled = { type: 'Precompiled', precompiled_charsmap: charsmap };
const eos = { type: 'TemplateProcessing', single: [{ Sequence: { id: 'A', type_id: 0 } }, { SpecialToken: { id: '</s>', type_id: 0 } }], pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }], special_tokens: { '</s>': { id: '</s>', ids: [2], tokens: ['</s>'] } } };
const bytesDecoder = seq('decoders', replace({ String: '▁' }, ' '), { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 });
const cases = [
  { name: 'T5', normalizer: precompiled, pre_tokenizer: seq('pretokenizers', { type: 'WhitespaceSplit' }, metaspace()), decoder: metaspace(), post_processor: eos },
  { name: 'T5, later', normalizer: seq('normalizers', precompiled, { type: 'Strip', strip_left: false, strip_right: true }, replace({ Regex: ' {2,}' }, '▁')), pre_tokenizer: metaspace(), decoder: metaspace(), post_processor: eos },
  { name: 'ALBERT', normalizer: seq('normalizers', replace({ String: '``' }, '"'), replace({ String: "''" }, '"'), { type: 'NFKD' }, { type: 'StripAccents' }, { type: 'Lowercase' }, precompiled), pre_tokenizer: metaspace(), decoder: metaspace() },
  { name: 'bytes, whole texts as words', normalizer: seq('normalizers', { type: 'Prepend', prepend: '▁' }, replace({ String: ' ' }, '▁')), pre_tokenizer: null, decoder: bytesDecoder, byte_fallback: true },
  { name: 'bytes, words', normalizer: null, pre_tokenizer: metaspace('first'), decoder: bytesDecoder, byte_fallback: true },
  { name: 'unknown characters', normalizer: null, pre_tokenizer: metaspace('never', false), decoder: metaspace('never') },
  { name: 'stripped', normalizer: { type: 'Strip', strip_left: true, strip_right: true }, pre_tokenizer: metaspace('first', false), decoder: metaspace('first'), },
];

const result = [];
for (const { name, byte_fallback = false, ...rest } of cases) {
  const file = { version: '1.0', truncation: null, padding: null, added_tokens: ['<unk>', '<s>', '</s>'].map((t, i) => added(i, t)).slice(name.startsWith('unknown') ? 1 : 0), post_processor: null, ...rest, model: { type: 'Unigram', unk_id: 0, byte_fallback } };
  const t = Tokenizer.fromString(JSON.stringify({ ...file, model: { ...file.model, vocab } }));
  const ids = [], special = [], decoded = [];
  for (const text of texts) {
    ids.push(Array.from((await t.encode(text, null, { addSpecialTokens: false })).getIds()));
    special.push(Array.from((await t.encode(text, null, { addSpecialTokens: true })).getIds()));
    decoded.push(await t.decode(ids.at(-1), true));
  }
  result.push({ name, file, ids, special: JSON.stringify(special) === JSON.stringify(ids) ? null : special, decoded });
}
const note = 'Written by tools/tokenizer/unigram.mjs: ids and texts from the Rust crate tokenizers 0.22.2, vocabulary and charsmap of SentencePiece 0.1.97. special null = ids.';
fs.writeFileSync(out, `{"note":${JSON.stringify(note)},\n"vocab":${JSON.stringify(vocab)},\n"general":${JSON.stringify(texts)},\n"cases":[\n${result.map((r) => JSON.stringify(r)).join(',\n')}\n]}\n`);
console.log(result.length, 'cases,', texts.length, 'texts,', fs.statSync(out).size, 'bytes');
fs.rmSync(work, { recursive: true });
