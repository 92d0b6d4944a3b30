// Many streams at a time of the npm openai SDK against the server at TROUPE_URL:
//   node crowd.mjs STREAMS TOKENS
// prints what each of them read, as one JSON array.
import OpenAI from 'openai';

const [streams, tokens] = process.argv.slice(2).map(Number);
const client = new OpenAI({ baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: 'unused', maxRetries: 0 });

async function read(i) {
  const seen = { text: '', finish: '', tokens: 0, chunks: 0, error: '' };
  try {
    const stream = await client.chat.completions.create({
      model: 'understudy', messages: [{ role: 'user', content: `Tell me story ${i}.` }], max_tokens: tokens, ignore_eos: true,
      temperature: i % 2, seed: i, stream: true, stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      seen.chunks++;
      seen.text += chunk.choices[0]?.delta?.content ?? '';
      seen.finish += chunk.choices[0]?.finish_reason ?? '';
      seen.tokens += chunk.usage?.completion_tokens ?? 0;
    }
  } catch (e) {
    seen.error = String(e);
  }
  return seen;
}

console.log(JSON.stringify(await Promise.all(Array.from({ length: streams }, (_, i) => read(i)))));
