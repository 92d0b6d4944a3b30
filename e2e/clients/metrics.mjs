// npm openai and ai against the server at TROUPE_URL, started with every kind of metrics
// on: no client may trip over what it does not know. Prints "ok" at the end.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { streamText } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

const baseURL = `${process.env.TROUPE_URL}/v1`;
const client = new OpenAI({ baseURL, apiKey: 'unused', maxRetries: 0 });
const messages = [{ role: 'user', content: 'What is the capital of France?' }];
const one = { model: 'understudy', messages, temperature: 0 };
const two = { model: 'understudy', messages, temperature: 1, n: 2, max_tokens: 8, ignore_eos: true };

function checkBreakdown({ breakdown: b, ...m }) {
  const parts = ['accept', 'grammar_compile', 'queue', 'prefill', 'stalled_by_prefill', 'decode', 'masking', 'preempted', 'recovering', 'finish'];
  const sum = parts.reduce((total, part) => total + b[`${part}_ms`], 0);
  assert.ok(Math.abs(sum - b.wall_ms) < 1e-5, `${sum} is not ${b.wall_ms}`);
  assert.equal(b.queue_ms, m.queue_time_ms);
}

const whole = await client.chat.completions.create(two);
assert.equal(whole.metrics, null);
for (const choice of whole.choices) checkBreakdown(choice.metrics);

const single = await client.chat.completions.create(one);
checkBreakdown(single.metrics);
assert.equal(single.timings.predicted_n, single.usage.completion_tokens);
assert.ok(Math.abs(single.usage.completion_time * 1000 - single.metrics.generation_time_ms) < 1e-6);

// The streaming helper, for which every chunk is a part of the whole.
const runner = client.chat.completions.stream({ ...two, stream_options: { include_usage: true } });
let last;
runner.on('chunk', (chunk) => { last = chunk; });
const final = await runner.finalChatCompletion();
assert.equal(final.choices.length, 2);
assert.equal(last.metrics, null);
for (const m of last.choices_metrics) checkBreakdown(m);

// Metrics on a stream without usage: as a comment, which no one sees, and as a chunk.
for (const [places, seen] of [['comment', 0], ['header, chunk', 1]]) {
  const asked = client.chat.completions.stream(one, { headers: { 'X-Troupe-Metrics': places } });
  let times = 0;
  asked.on('chunk', (chunk) => { if (chunk.metrics) times++; });
  const answer = await asked.finalChatCompletion();
  assert.match(answer.choices[0].message.content, /Paris/);
  assert.equal(times, seen);
  let text = '';
  const raw = await client.completions.create({ model: 'understudy', prompt: 'The capital of France is', max_tokens: 6, temperature: 0, stream: true },
    { headers: { 'X-Troupe-Metrics': places } });
  for await (const chunk of raw) text += chunk.choices[0]?.text ?? '';
  assert.ok(text.length > 0);

  const provider = createOpenAICompatible({ name: 'troupe', baseURL, headers: { 'X-Troupe-Metrics': places } });
  const r = streamText({ model: provider('understudy'), prompt: messages[0].content, temperature: 0, maxRetries: 0 });
  let streamed = '';
  for await (const piece of r.textStream) streamed += piece;
  assert.match(streamed, /Paris/);
  assert.equal(await r.finishReason, 'stop');
}

const { response } = await client.chat.completions.create(one, { headers: { 'X-Troupe-Metrics': 'header' } }).withResponse();
assert.match(response.headers.get('server-timing'), /breakdown\.wall;dur=[0-9.]+/);

const responses = await client.responses.create({ model: 'understudy', input: messages[0].content, temperature: 0 });
checkBreakdown(responses.metrics);
await assert.rejects(client.chat.completions.create(one, { headers: { 'X-Troupe-Metrics': 'footer' } }),
  (e) => e.status === 400 && e.param === 'X-Troupe-Metrics');
console.log('ok');
