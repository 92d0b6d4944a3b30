// npm @anthropic-ai/sdk against the server at TROUPE_URL, whose key is TROUPE_KEY (started
// with --enable-per-request-metrics, --enable-prompt-tokens-details,
// --enable-auto-tool-choice and --reasoning-parser glm45).
import assert from 'node:assert/strict';
import test from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';

const options = { baseURL: process.env.TROUPE_URL, maxRetries: 0 };
const client = new Anthropic({ ...options, apiKey: process.env.TROUPE_KEY, authToken: null });
const ask = (content, more) => ({ model: 'understudy', max_tokens: 200, temperature: 0, messages: [{ role: 'user', content }], ...more });
const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const weather = { name: 'get_weather', description: 'Weather of a city', input_schema };
const sunny = JSON.stringify({ temperature: 21, condition: 'sunny' });
const fields = ['time_to_first_token_ms', 'generation_time_ms', 'queue_time_ms', 'mean_itl_ms', 'tokens_per_second'];

test('a message', async () => {
  const m = await client.messages.create(ask('What is the capital of France?'));
  assert.match(m.id, /^msg_/);
  assert.deepEqual([m.type, m.role, m.model, m.stop_reason, m.stop_sequence], ['message', 'assistant', 'understudy', 'end_turn', null]);
  assert.deepEqual(m.content.map((b) => b.type), ['text']);
  assert.match(m.content[0].text, /Paris/);
  assert.ok(m.usage.output_tokens > 3);
  assert.ok(m._request_id);
  assert.deepEqual(Object.keys(m.metrics), fields);
});

test('the stream helper puts the same message together', async () => {
  const question = ask('What is the capital of Italy?', { system: [{ type: 'text', text: 'Answer in a sentence.' }] });
  const whole = await client.messages.create(question);
  const stream = client.messages.stream(question);
  const events = [];
  let text = '', input;
  stream.on('streamEvent', (e) => { events.push(e); input ??= e.message.usage.input_tokens; });
  stream.on('text', (delta, snapshot) => { text += delta; assert.equal(snapshot, text); });
  const m = await stream.finalMessage();
  assert.deepEqual(m.content, whole.content);
  assert.deepEqual([m.stop_reason, m.usage.output_tokens], [whole.stop_reason, whole.usage.output_tokens]);
  assert.equal(text, await stream.finalText());
  const types = events.map((e) => e.type);
  assert.deepEqual([types[0], types[1], ...types.slice(-3)], ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop']);
  const read = m.usage.cache_read_input_tokens;
  assert.ok(read >= 16, 'it has been asked before');
  assert.equal(m.usage.input_tokens + read, input);
  assert.deepEqual(Object.keys(events.at(-2).metrics), fields);
});

test('counted is what is read', async () => {
  const { max_tokens, temperature, ...question } = ask('What is the weather in Oslo?', { system: 'Be brief.', tools: [weather] });
  for (const more of [{}, { thinking: { type: 'enabled', budget_tokens: 100 } }, { tool_choice: { type: 'tool', name: 'get_weather' } }]) {
    const { input_tokens } = await client.messages.countTokens({ ...question, ...more });
    const { usage } = await client.messages.create({ ...question, ...more, max_tokens: 101 });
    assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  }
});

test('a loop of tools, by hand and streamed', async () => {
  const messages = [{ role: 'user', content: 'What is the weather in Lisbon?' }];
  const stream = client.messages.stream(ask('', { messages, tools: [weather] }));
  let json = '';
  stream.on('inputJson', (delta) => { json += delta; });
  const first = await stream.finalMessage();
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.at(-1);
  assert.deepEqual([call.type, call.name, call.input], ['tool_use', 'get_weather', { city: 'Lisbon' }]);
  assert.deepEqual(JSON.parse(json), call.input);
  messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: sunny }] }] });
  const second = await client.messages.create(ask('', { messages, tools: [weather] }));
  assert.equal(second.stop_reason, 'end_turn');
  assert.match(second.content[0].text, /21/);
});

test('the tool runner, which first asks for a thread', async () => {
  for (const stream of [false, true]) {
    const asked = [];
    const tool = betaTool({ name: weather.name, description: weather.description, inputSchema: input_schema, run: (args) => { asked.push(args); return sunny; } });
    const m = await client.beta.messages.toolRunner(ask('What is the weather in Lisbon?', { tools: [tool], stream })).runUntilDone();
    assert.match(m.content[0].text, /21/);
    assert.deepEqual(asked, [{ city: 'Lisbon' }]);
  }
});

test('calls that are forced keep to their schema', async () => {
  const strict = { ...weather, input_schema: { ...input_schema, properties: { city: { enum: ['Oslo', 'Bergen'] } } } };
  for (const tool_choice of [{ type: 'any' }, { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true }]) {
    const m = await client.messages.create(ask('Tell me a story.', { tools: [strict], tool_choice }));
    assert.equal(m.stop_reason, 'tool_use');
    for (const block of m.content) assert.ok(['Oslo', 'Bergen'].includes(block.input.city), JSON.stringify(block));
  }
  const none = await client.messages.create(ask('What is the capital of France?', { tools: [weather], tool_choice: { type: 'none' } }));
  assert.deepEqual(none.content.map((b) => b.type), ['text']);
});

test('thoughts', async () => {
  const question = ask('What is 58 + 67?', { thinking: { type: 'enabled', budget_tokens: 100 } });
  const stream = client.messages.stream(question);
  let thoughts = '', signature = '';
  stream.on('thinking', (delta) => { thoughts += delta; });
  stream.on('signature', (s) => { signature = s; });
  const m = await stream.finalMessage();
  assert.deepEqual(m.content.map((b) => b.type), ['thinking', 'text']);
  assert.equal(m.content[0].thinking, thoughts);
  assert.equal(m.content[0].signature, signature);
  assert.ok(signature);
  assert.match(thoughts, /carry/);
  assert.match(m.content[1].text, /125/);
  assert.ok(m.usage.output_tokens_details.thinking_tokens > 0);
  const whole = await client.messages.create(question);
  assert.deepEqual(whole.content.map((b) => b.thinking ?? b.text), m.content.map((b) => b.thinking ?? b.text));
  const next = await client.messages.create(ask('', { messages: [...question.messages, { role: 'assistant', content: m.content }, { role: 'user', content: 'What is the capital of France?' }] }));
  assert.match(next.content[0].text, /Paris/);
  const off = await client.messages.create(ask('What is 58 + 67?', { thinking: { type: 'disabled' } }));
  assert.deepEqual(off.content.map((b) => b.type), ['text']);
});

test('how messages end', async () => {
  const cut = await client.messages.create(ask('What is the capital of France?', { max_tokens: 2 }));
  assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ['max_tokens', 2]);
  const stopped = await client.messages.create(ask('What is the capital of France?', { stop_sequences: [' is', 'Paris'] }));
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text], ['stop_sequence', ' is', 'The capital of France']);
  const begun = ask('What is the capital of France?');
  begun.messages.push({ role: 'assistant', content: 'The capital of France' });
  assert.match((await client.messages.create(begun)).content[0].text, /^ is Paris/);
});

test('a form for the answer', async () => {
  const schema = { type: 'object', properties: { country: { type: 'string', maxLength: 20 }, known: { type: 'boolean' } }, required: ['country', 'known'], additionalProperties: false };
  const m = await client.messages.parse(ask('Give the capital of Brazil as JSON.', { output_config: { format: jsonSchemaOutputFormat(schema) } }));
  assert.deepEqual(Object.keys(m.parsed_output), ['country', 'known']);
});

async function refused(promise, kind, status, type, message) {
  await assert.rejects(promise, (e) => {
    assert.ok(e instanceof kind, e.stack);
    assert.deepEqual([e.status, e.type], [status, type]);
    assert.match(e.apiMessage, message);
    assert.ok(e.requestID);
    assert.equal(e.error.request_id, e.requestID);
    return true;
  });
}

test('errors are the SDK\'s', async () => {
  const stranger = new Anthropic({ ...options, apiKey: 'wrong', authToken: null });
  await refused(stranger.messages.create(ask('Hi')), Anthropic.AuthenticationError, 401, 'authentication_error', /API key/);
  await refused(client.messages.create(ask('Hi', { model: 'nope' })), Anthropic.NotFoundError, 404, 'not_found_error', /nope/);
  await refused(client.messages.create({ ...ask('Hi'), max_tokens: undefined }), Anthropic.BadRequestError, 400, 'invalid_request_error', /max_tokens: is required/);
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  await refused(client.messages.create(ask([image])), Anthropic.BadRequestError, 400, 'invalid_request_error', /messages\[0\]\.content\[0\]\.type: a block of type "image"/);
  for (const stream of [false, true]) {
    await refused(client.messages.create(ask('word '.repeat(5000), { stream })), Anthropic.BadRequestError, 400, 'invalid_request_error', /1024 tokens/);
  }
  const bearer = new Anthropic({ ...options, apiKey: null, authToken: process.env.TROUPE_KEY });
  assert.match((await bearer.messages.create(ask('What is the capital of France?'))).content[0].text, /Paris/);
});

test('a stream that is given up', async () => {
  const stream = client.messages.stream(ask('Once upon a time', { max_tokens: 900, ignore_eos: true }));
  stream.once('text', () => stream.abort());
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  assert.ok(stream.aborted);
});
