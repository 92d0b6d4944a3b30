// Writes model/gguf/hf/testdata/sentencepiece.json: vocabularies that
// SentencePiece learnt, and the ids that it gives for texts.
//
//   apt-get install sentencepiece   # 0.1.97 of Debian 12: spm_train, spm_encode
//   node …/tools/tokenizer/sentencepiece.mjs …/model/gguf/hf/testdata/sentencepiece.json TEXT…
//
// The vocabularies are learnt from the files TEXT, and from corpus.mjs. Those
// recorded were learnt from this repository's docs.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { corpus } from './corpus.mjs';
import { readModel } from './proto.mjs';

const [out, ...files] = process.argv.slice(2);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'spm-'));
const lines = (texts) => texts.map((t) => t.replace(/[\0\r\n]+/g, ' ')); // one line is one text
const input = path.join(dir, 'input.txt');
fs.writeFileSync(input, files.map((f) => fs.readFileSync(f, 'utf8')).join('\n') + '\n' + lines(corpus(0)).join('\n') + '\n');
const texts = [...new Set(lines(corpus(120)).filter((t) => t.length <= 120))].concat(['a'.repeat(300), ' '.repeat(75), 'if x:' + ' '.repeat(9) + 'y' + ' '.repeat(14), 'ha'.repeat(90)]);
fs.writeFileSync(path.join(dir, 'texts.txt'), texts.join('\n') + '\n');

const cases = [
  { name: 'bytes', byte_fallback: true, add_dummy_prefix: true, remove_extra_whitespaces: false },
  { name: 'unknown', byte_fallback: false, add_dummy_prefix: false, remove_extra_whitespaces: false },
  { name: 'Unigram', model_type: 'unigram', byte_fallback: true, add_dummy_prefix: true, remove_extra_whitespaces: true },
  { name: 'extra blanks', byte_fallback: true, add_dummy_prefix: true, remove_extra_whitespaces: true },
];
const models = cases.map(({ name, model_type = 'bpe', ...flags }) => {
  const prefix = path.join(dir, name);
  execFileSync('spm_train', [`--input=${input}`, `--model_prefix=${prefix}`, `--model_type=${model_type}`, '--num_threads=1', '--vocab_size=1000', '--character_coverage=0.98', '--normalization_rule_name=identity',
    '--split_by_whitespace=true', '--allow_whitespace_only_pieces=true', ...Object.entries(flags).map(([k, v]) => `--${k}=${v}`)], { stdio: 'ignore' });
  const ids = execFileSync('spm_encode', [`--model=${prefix}.model`, '--output_format=id', path.join(dir, 'texts.txt')], { encoding: 'utf8' })
    .split('\n').slice(0, texts.length).map((l) => l.split(' ').filter(Boolean).map(Number));
  const { tokens, scores, types } = readModel(`${prefix}.model`);
  return { name, model_type, ...flags, tokens, scores, types, ids };
});
const note = 'Written by tools/tokenizer/sentencepiece.mjs: vocabularies and ids of SentencePiece 0.1.97.';
fs.writeFileSync(out, `{"note":${JSON.stringify(note)},\n"texts":${JSON.stringify(texts)},\n"models":[\n${models.map((m) => JSON.stringify(m)).join(',\n')}\n]}\n`);
console.log(texts.length, 'texts,', fs.statSync(out).size, 'bytes');
fs.rmSync(dir, { recursive: true });
