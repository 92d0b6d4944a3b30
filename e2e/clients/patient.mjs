// One question by the npm openai SDK with its own retries, against the server at
// TROUPE_URL with the key TROUPE_KEY; prints the answer and every try, as JSON.
import OpenAI from 'openai';

const tries = [];
const client = new OpenAI({
  baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: process.env.TROUPE_KEY, maxRetries: 4,
  fetch: async (url, init) => {
    const response = await fetch(url, init);
    tries.push({ at_ms: performance.now(), status: response.status, retry_after: Number(response.headers.get('retry-after') ?? 0) });
    return response;
  },
});
const r = await client.chat.completions.create({
  model: 'understudy', messages: [{ role: 'user', content: 'What is the capital of France?' }], temperature: 0,
});
console.log(JSON.stringify({ text: r.choices[0].message.content, tries }));
