// Forms by the helpers of npm openai and ai, and thoughts by those that the other files leave out, against the server at
// TROUPE_URL (started with --reasoning-parser glm45).
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { generateText, Output, streamText } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { z } from 'zod';

const baseURL = `${process.env.TROUPE_URL}/v1`;
const client = new OpenAI({ baseURL, apiKey: 'unused', maxRetries: 0 });
const provider = (more) => createOpenAICompatible({ name: 'troupe', baseURL, supportsStructuredOutputs: true, includeUsage: true, ...more })('understudy');
const Answer = z.object({ country: z.enum(['Brazil', 'Peru']), known: z.boolean(), cities: z.array(z.string().max(12)).max(2), note: z.string().max(9).nullable() });
const City = z.object({ city: z.string().max(40) });
const prompt = 'Give the capital of Brazil as JSON.';
const ask = (content, more) => ({ model: 'understudy', temperature: 0, max_tokens: 200, messages: [{ role: 'user', content }], ...more });
const reply = (input, more) => ({ model: 'understudy', temperature: 0, max_output_tokens: 200, input, ...more });
const thinking = { chat_template_kwargs: { enable_thinking: true } };
const sum = 'What is 58 + 67?';

test('zodResponseFormat: whole and streamed', async () => {
  const request = ask(prompt, { response_format: zodResponseFormat(Answer, 'answer') });
  const whole = (await client.chat.completions.parse(request)).choices[0];
  assert.equal(whole.finish_reason, 'stop');
  Answer.parse(whole.message.parsed);
  const stream = client.chat.completions.stream(request);
  let deltas = 0;
  stream.on('content.delta', ({ parsed }) => { deltas++; assert.ok(parsed === null || typeof parsed === 'object'); });
  const done = stream.emitted('content.done');
  const final = await stream.finalChatCompletion();
  assert.deepEqual(final.choices[0].message.parsed, whole.message.parsed);
  assert.deepEqual((await done).parsed, whole.message.parsed);
  assert.ok(deltas > 3);
});

test('zodTextFormat: whole and streamed', async () => {
  const request = reply(prompt, { text: { format: zodTextFormat(Answer, 'answer') } });
  const whole = await client.responses.parse(request);
  Answer.parse(whole.output_parsed);
  assert.equal(whole.text.format.name, 'answer');
  const final = await client.responses.stream(request).finalResponse();
  assert.deepEqual(final.output_parsed, whole.output_parsed);
});

test('zodFunction and zodResponsesFunction: arguments are parsed', async () => {
  const get = { name: 'get_weather', description: 'Weather of a city', parameters: City };
  const chat = await client.chat.completions.parse(ask('What is the weather in Rome?', { tools: [zodFunction(get)], tool_choice: 'required' }));
  assert.deepEqual(chat.choices[0].message.tool_calls[0].function.parsed_arguments, { city: 'Rome' });
  const r = await client.responses.parse(reply('What is the weather in Rome?', { tools: [zodResponsesFunction(get)], tool_choice: 'required' }));
  assert.deepEqual(r.output[0].parsed_arguments, { city: 'Rome' });
});

test('openai: a cut form is the error of the helper', async () => {
  await assert.rejects(client.chat.completions.parse(ask(prompt, { response_format: zodResponseFormat(Answer, 'answer'), max_tokens: 3 })),
    OpenAI.LengthFinishReasonError);
});

test('openai: thoughts of chats and of streamed responses', async () => {
  const whole = await client.chat.completions.create(ask(sum, thinking));
  const { reasoning, content } = whole.choices[0].message;
  assert.match(reasoning, /carry/);
  assert.match(content, /125/);
  assert.ok(whole.usage.completion_tokens_details.reasoning_tokens > 0);
  let thoughts = '', text = '';
  for await (const chunk of await client.chat.completions.create(ask(sum, { ...thinking, stream: true }))) {
    thoughts += chunk.choices[0].delta.reasoning ?? '';
    text += chunk.choices[0].delta.content ?? '';
  }
  assert.deepEqual([thoughts, text], [reasoning, content]);
  let pieces = '';
  const stream = client.responses.stream(reply(sum, thinking));
  stream.on('response.reasoning_text.delta', (e) => { pieces += e.delta; });
  const final = await stream.finalResponse();
  assert.equal(pieces, reasoning);
  assert.equal(final.output[0].content[0].text, reasoning);
  assert.equal(final.output_text, content);
});

test('openai: a form behind thoughts', async () => {
  const r = await client.chat.completions.parse(ask(sum, { ...thinking, response_format: zodResponseFormat(z.object({ n: z.number().int().min(0).max(999) }), 'sum') }));
  assert.match(r.choices[0].message.reasoning, /carry/);
  assert.equal(typeof r.choices[0].message.parsed.n, 'number');
});

test('ai: Output.object, whole and streamed', async () => {
  const request = { model: provider(), prompt, temperature: 0, maxRetries: 0, output: Output.object({ schema: Answer }) };
  const { output } = await generateText(request);
  Answer.parse(output);
  const r = streamText(request);
  let last, parts = 0;
  for await (const part of r.partialOutputStream) { last = part; parts++; }
  assert.deepEqual(last, output);
  assert.deepEqual(await r.output, output);
  assert.ok(parts > 1);
});

test('ai: generateText has thoughts apart', async () => {
  const r = await generateText({ model: provider({ transformRequestBody: (body) => ({ ...body, ...thinking }) }), prompt: sum, temperature: 0, maxRetries: 0 });
  assert.match(r.reasoningText, /carry/);
  assert.match(r.text, /125/);
  assert.ok(r.usage.reasoningTokens > 0);
});
