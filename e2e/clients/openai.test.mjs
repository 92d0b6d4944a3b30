// npm openai against the server at TROUPE_URL (started with --enable-per-request-metrics).
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: 'unused', maxRetries: 0 });
const question = [{ role: 'user', content: 'What is the capital of France?' }];
const fields = ['time_to_first_token_ms', 'generation_time_ms', 'queue_time_ms', 'mean_itl_ms', 'tokens_per_second'];

function checkMetrics(metrics, tokens) {
  assert.deepEqual(Object.keys(metrics), fields);
  for (const f of fields) assert.equal(typeof metrics[f], 'number', f);
  const interval = metrics.time_to_first_token_ms + metrics.generation_time_ms;
  assert.ok(Math.abs(metrics.tokens_per_second - (tokens * 1000) / interval) < metrics.tokens_per_second * 1e-6);
  assert.ok(Math.abs(metrics.mean_itl_ms * (tokens - 1) - metrics.generation_time_ms) < 1e-6 * interval);
}

test('chat, whole', async () => {
  const r = await client.chat.completions.create({ model: 'understudy', messages: question, temperature: 0 });
  assert.match(r.choices[0].message.content, /Paris/);
  assert.equal(r.choices[0].finish_reason, 'stop');
  checkMetrics(r.metrics, r.usage.completion_tokens);
});

test('chat, streaming: metrics on the last usage chunk', async () => {
  const stream = await client.chat.completions.create({
    model: 'understudy', messages: question, temperature: 0, stream: true, stream_options: { include_usage: true },
  });
  let text = '', metrics, usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    if (chunk.usage) ({ metrics, usage } = chunk);
    else assert.equal(chunk.metrics, undefined);
  }
  assert.match(text, /Paris/);
  checkMetrics(metrics, usage.completion_tokens);
});

test('the .stream() helper accumulates', async () => {
  const runner = client.chat.completions.stream({ model: 'understudy', messages: question, temperature: 0 });
  const final = await runner.finalChatCompletion();
  assert.match(final.choices[0].message.content, /Paris/);
});

test('n = 2: metrics is null, usage exact', async () => {
  const r = await client.chat.completions.create({ model: 'understudy', messages: question, n: 2, temperature: 1, max_tokens: 4, ignore_eos: true });
  assert.equal(r.metrics, null);
  assert.equal(r.usage.completion_tokens, 8);
});

test('completions, whole and streaming', async () => {
  const req = { model: 'understudy', prompt: 'The capital of France is', max_tokens: 6, temperature: 0 };
  const whole = await client.completions.create(req);
  let text = '';
  for await (const chunk of await client.completions.create({ ...req, stream: true })) text += chunk.choices[0].text;
  assert.equal(text, whole.choices[0].text);
  checkMetrics(whole.metrics, whole.usage.completion_tokens);
});

test('models', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.deepEqual(ids, ['understudy']);
  assert.equal((await client.models.retrieve('understudy')).id, 'understudy');
});

test('logprobs', async () => {
  const r = await client.chat.completions.create({ model: 'understudy', messages: question, logprobs: true, top_logprobs: 2, temperature: 0 });
  assert.equal(r.choices[0].logprobs.content.length, r.usage.completion_tokens);
  assert.equal(r.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test('errors are typed', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'nope', messages: question }), (e) => e instanceof OpenAI.NotFoundError && e.code === 404);
  await assert.rejects(client.chat.completions.create({ model: 'understudy', messages: question, temperature: 9 }),
    (e) => e instanceof OpenAI.BadRequestError && /temperature/.test(e.message));
});

test('a client may leave in the middle', async () => {
  const stream = await client.chat.completions.create({ model: 'understudy', messages: question, max_tokens: 500, ignore_eos: true, stream: true });
  let n = 0;
  for await (const _ of stream) if (++n === 5) break;
  assert.equal(n, 5);
  const r = await client.chat.completions.create({ model: 'understudy', messages: question, temperature: 0 });
  assert.match(r.choices[0].message.content, /Paris/);
});
