// Reads models of SentencePiece (sentencepiece_model.proto).
import fs from 'node:fs';

// The fields of a protocol buffer message, as [number, value].
function* fields(b) {
  for (let i = 0; i < b.length; ) {
    const varint = () => {
      let n = 0, k = 1;
      for (; b[i] & 128; k *= 128) n += (b[i++] & 127) * k;
      return n + b[i++] * k;
    };
    const tag = varint();
    if ((tag & 7) === 0) yield [tag >> 3, varint()];
    else if ((tag & 7) === 5) yield [tag >> 3, b.readFloatLE((i += 4) - 4)];
    else { const n = varint(); yield [tag >> 3, b.subarray(i, (i += n))]; }
  }
}

// readModel returns the tokens with their scores and types, and the charsmap as
// tokenizer.json has it. ModelProto: pieces = 1 (piece = 1, score = 2, type = 3),
// normalizer_spec = 3 (precompiled_charsmap = 2).
export function readModel(file) {
  const tokens = [], scores = [], types = [];
  let charsmap = '';
  for (const [n, v] of fields(fs.readFileSync(file))) {
    if (n === 3) charsmap = Buffer.from(Object.fromEntries(fields(v))[2] ?? '').toString('base64');
    if (n !== 1) continue;
    const p = Object.fromEntries(fields(v));
    tokens.push(p[1].toString()); scores.push(p[2] ?? 0); types.push(p[3] ?? 1);
  }
  return { tokens, scores, types, charsmap };
}
