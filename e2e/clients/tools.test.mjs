// Tools, schemas and thoughts with npm openai and ai, against the server at TROUPE_URL
// (started with --enable-auto-tool-choice and --reasoning-parser glm45).
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

const client = new OpenAI({ baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: 'unused', maxRetries: 0 });
const ai = createOpenAICompatible({ name: 'troupe', baseURL: `${process.env.TROUPE_URL}/v1`, includeUsage: true })('understudy');
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const weather = { type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters } };
const ask = (content) => ({ model: 'understudy', messages: [{ role: 'user', content }], temperature: 0, max_tokens: 200 });
const sunny = () => JSON.stringify({ temperature: 21, condition: 'sunny' });

test('the tool runner runs a tool and gets the answer', async () => {
  for (const stream of [false, true]) {
    const asked = [];
    const runner = client.chat.completions.runTools({
      ...ask('What is the weather in Lisbon?'), stream,
      tools: [{ ...weather, function: { ...weather.function, parse: JSON.parse, function: (args) => { asked.push(args); return sunny(); } } }],
    });
    assert.match(await runner.finalContent(), /21/);
    assert.deepEqual(asked, [{ city: 'Lisbon' }]);
    assert.equal((await runner.finalFunctionToolCall()).name, 'get_weather');
    if (stream) assert.ok((await runner.totalUsage()).completion_tokens >= 0);
  }
});

test('the .stream() helper gathers calls', async () => {
  for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
    const pieces = [];
    const runner = client.chat.completions.stream({ ...ask('What is the weather in Oslo?'), tools: [weather], tool_choice });
    runner.on('tool_calls.function.arguments.delta', (e) => pieces.push(e.arguments_delta));
    const { message, finish_reason } = (await runner.finalChatCompletion()).choices[0];
    assert.equal(finish_reason, tool_choice === 'required' ? 'tool_calls' : 'stop');
    assert.equal(message.tool_calls.length, 1);
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: 'Oslo' });
    assert.equal(pieces.join(''), message.tool_calls[0].function.arguments);
    assert.ok(pieces.length > 2);
  }
});

test('.parse() with a strict schema and with a strict tool', async () => {
  const schema = { type: 'object', properties: { country: { type: 'string', maxLength: 20 }, known: { type: 'boolean' } }, required: ['country', 'known'], additionalProperties: false };
  const r = await client.chat.completions.parse({
    ...ask('Give the capital of Brazil as JSON.'), response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
  });
  assert.deepEqual(Object.keys(JSON.parse(r.choices[0].message.content)), ['country', 'known']);
  const called = await client.chat.completions.parse({
    ...ask('What is the weather in Rome?'), tools: [{ ...weather, function: { ...weather.function, strict: true } }], tool_choice: 'required',
  });
  assert.deepEqual(called.choices[0].message.tool_calls[0].function.parsed_arguments, { city: 'Rome' });
});

test('responses: a call, its result, and the answer', async () => {
  const tools = [{ type: 'function', name: 'get_weather', description: 'Weather of a city', parameters, strict: true }];
  const input = [{ role: 'user', content: 'What is the weather in Lisbon?' }];
  const req = { model: 'understudy', temperature: 0, max_output_tokens: 200, tools };
  const stream = client.responses.stream({ ...req, input, tool_choice: 'required' });
  let pieces = '';
  stream.on('response.function_call_arguments.delta', (e) => { pieces += e.delta; assert.equal(e.snapshot, pieces); });
  const first = await stream.finalResponse();
  const call = first.output[0];
  assert.equal(call.type, 'function_call');
  assert.equal(call.arguments, pieces);
  assert.deepEqual(call.parsed_arguments ?? JSON.parse(call.arguments), { city: 'Lisbon' });
  const answer = await client.responses.create({ ...req, input: [...input, ...first.output, { type: 'function_call_output', call_id: call.call_id, output: sunny() }] });
  assert.match(answer.output_text, /21/);
});

test('responses: thoughts', async () => {
  const r = await client.responses.create({ model: 'understudy', temperature: 0, input: 'What is 58 + 67?', chat_template_kwargs: { enable_thinking: true } });
  assert.deepEqual(r.output.map((item) => item.type), ['reasoning', 'message']);
  assert.match(r.output_text, /125/);
  assert.ok(r.usage.output_tokens_details.reasoning_tokens > 0);
});

const tools = { get_weather: tool({ description: 'Weather of a city', inputSchema: jsonSchema(parameters), execute: async () => ({ temperature: 21, condition: 'sunny' }) }) };

test('ai: generateText in two steps', async () => {
  const r = await generateText({ model: ai, prompt: 'What is the weather in Lisbon?', temperature: 0, tools, stopWhen: stepCountIs(3), maxRetries: 0 });
  assert.equal(r.steps.length, 2);
  assert.equal(r.steps[0].finishReason, 'tool-calls');
  assert.deepEqual(r.steps[0].toolCalls[0].input, { city: 'Lisbon' });
  assert.match(r.text, /21/);
});

test('ai: streamText in two steps, and a required tool', async () => {
  const r = streamText({ model: ai, prompt: 'What is the weather in Lisbon?', temperature: 0, tools, stopWhen: stepCountIs(3), maxRetries: 0 });
  let text = '';
  for await (const piece of r.textStream) text += piece;
  assert.match(text, /21/);
  assert.equal((await r.steps)[0].toolCalls.length, 1);
  const forced = await generateText({ model: ai, prompt: 'What is the weather in Rome?', temperature: 0, tools, toolChoice: 'required', maxRetries: 0 });
  assert.deepEqual(forced.toolCalls[0].input, { city: 'Rome' });
  assert.equal(forced.finishReason, 'tool-calls');
});

test('ai: thoughts', async () => {
  const model = createOpenAICompatible({
    name: 'troupe', baseURL: `${process.env.TROUPE_URL}/v1`,
    transformRequestBody: (body) => ({ ...body, chat_template_kwargs: { enable_thinking: true } }),
  })('understudy');
  const r = streamText({ model, prompt: 'What is 58 + 67?', temperature: 0, maxRetries: 0 });
  await r.consumeStream();
  assert.match(await r.reasoningText, /carry/);
  assert.match(await r.text, /125/);
});
