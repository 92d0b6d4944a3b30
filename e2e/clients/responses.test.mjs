// The Responses API through npm openai, against the server at TROUPE_URL (started with --enable-per-request-metrics).
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: 'unused', maxRetries: 0 });
const question = { model: 'understudy', input: 'What is the capital of France?', temperature: 0 };

test('responses: whole, streaming and the .stream() helper agree', async () => {
  const whole = await client.responses.create(question);
  assert.match(whole.output_text, /Paris/);
  assert.equal(whole.status, 'completed');
  assert.equal(typeof whole.metrics.time_to_first_token_ms, 'number');

  let text = '', next = 0, last;
  for await (const event of await client.responses.create({ ...question, stream: true })) {
    assert.equal(event.sequence_number, next++);
    if (event.type === 'response.output_text.delta') text += event.delta;
    last = event;
  }
  assert.equal(last.type, 'response.completed');
  assert.equal(text, whole.output_text);
  assert.deepEqual(last.response.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(typeof last.response.metrics.time_to_first_token_ms, 'number');

  const final = await client.responses.stream(question).finalResponse();
  assert.equal(final.output_text, whole.output_text);
  assert.equal(final.output[0].content[0].parsed, null);
});

test('responses: cut at max_output_tokens', async () => {
  const r = await client.responses.create({ ...question, input: 'Write a long story.', max_output_tokens: 16 });
  assert.equal(r.status, 'incomplete');
  assert.equal(r.incomplete_details.reason, 'max_output_tokens');
  assert.equal(r.usage.output_tokens, 16);
});

test('responses: a conversation of items, and errors', async () => {
  const r = await client.responses.create({
    ...question,
    instructions: 'Be brief.',
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'Weather in Oslo?' }] },
      { type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{"city":"Oslo"}' },
      { type: 'function_call_output', call_id: 'c1', output: '{"celsius":4}' },
    ],
    tools: [{ type: 'function', name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } }, strict: false }],
    max_output_tokens: 40,
  });
  assert.equal(r.tools[0].name, 'get_weather');
  assert.ok(r.usage.input_tokens > 20);
  await assert.rejects(client.responses.create({ ...question, input: [] }), (e) => e.status === 400 && e.param === 'input');
  await assert.rejects(client.responses.create({ ...question, previous_response_id: 'resp_nope' }), (e) => e.status === 404 && e.param === 'previous_response_id');
});
