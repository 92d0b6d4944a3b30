// npm ai with @ai-sdk/openai-compatible against the server at TROUPE_URL.
import assert from 'node:assert/strict';
import test from 'node:test';
import { generateText, streamText } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

const fields = ['time_to_first_token_ms', 'generation_time_ms', 'queue_time_ms', 'mean_itl_ms', 'tokens_per_second'];
const provider = createOpenAICompatible({
  name: 'troupe',
  baseURL: `${process.env.TROUPE_URL}/v1`,
  includeUsage: true,
  // The extractor is this SDK's way to fields that OpenAI does not know.
  metadataExtractor: {
    extractMetadata: async ({ parsedBody }) => ({ troupe: { metrics: parsedBody.metrics } }),
    createStreamExtractor: () => {
      let metrics;
      return {
        processChunk(chunk) { metrics = chunk.metrics ?? metrics; },
        buildMetadata: () => ({ troupe: { metrics } }),
      };
    },
  },
});
const model = provider('understudy');
const prompt = 'What is the capital of France?';

test('generateText', async () => {
  const r = await generateText({ model, prompt, temperature: 0, maxRetries: 0 });
  assert.match(r.text, /Paris/);
  assert.equal(r.finishReason, 'stop');
  assert.ok(r.usage.inputTokens > 0 && r.usage.outputTokens > 0);
  assert.deepEqual(Object.keys(r.providerMetadata.troupe.metrics), fields);
});

test('streamText', async () => {
  const r = streamText({ model, prompt, temperature: 0, maxRetries: 0 });
  let text = '';
  for await (const piece of r.textStream) text += piece;
  assert.match(text, /Paris/);
  assert.equal(await r.finishReason, 'stop');
  assert.ok((await r.usage).outputTokens > 0);
  const { metrics } = (await r.providerMetadata).troupe;
  assert.deepEqual(Object.keys(metrics), fields);
  assert.ok(metrics.tokens_per_second > 0);
});

test('a refusal reaches the caller', async () => {
  await assert.rejects(generateText({ model: provider('nope'), prompt, maxRetries: 0 }), (e) => e.statusCode === 404 && /does not exist/.test(e.message));
});
